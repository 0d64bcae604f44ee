"""The status page at `/` of the registry port: what a scrape shows, for people. Read-only."""
