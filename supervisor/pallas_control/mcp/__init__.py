"""A client of the agents themselves: one `tools/call` of `send_message` over MCP's streamable HTTP, 2026-07-28.

`client` asks; `exchange` is HTTP, which clients of other protocols share; `messages` has what is sent and what comes
back, `event_stream` parts the stream, `errors` says how a call fails. The MCP SDK is not used because importing it
takes several times as long as a whole command line. What comes from the other side is bounded in size and checked for
its types; it is not made safe for a terminal here.
"""
