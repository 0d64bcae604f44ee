"""What has happened: events in order, kept in a bounded ring that any number of readers share.

`ring` keeps numbered things, `log` is the log of events and its readers, `agent_events` says what happened to agents.
The log may know nothing of agents, and none of it HTTP.
"""
