"""The status page at `/` of the registry port: what a scrape shows, for people. Read-only.

A request takes three steps. `data` reads what there is to show: `feed` the series and the agents' reports, every 15
seconds for `history` and on each request; `facts` makes typed values of them. `view` turns these values into HTML,
without I/O. `routes` serves the HTML and the files in `static`; the script asks for the view again and replaces what
has changed.
"""
