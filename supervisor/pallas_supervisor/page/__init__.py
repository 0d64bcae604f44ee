"""The status page at `/` of the registry port: what a scrape shows, for people. Read-only.

`routes` is its door; `samples`, `history`, `facts` say what there is to show, `html`, `charts`, `layers`, `graph`,
`render` how it looks.
"""
