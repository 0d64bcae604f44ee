"""Records all of the gateway's metrics, in an interpreter of its own (`support.worker.record.run`)."""

from __future__ import annotations

RECORD_ALL = """
from pallas_gateway.telemetry import metrics as m
m.open_metrics(directory, SLOT)
m.count_request("management", "human", "ok")
m.count_denied("invalid")
m.add_in_flight(2)
m.add_in_flight(-1)
m.observe_tool("management", "agents_list", 0.2)
m.observe_relay("git", ok=True, seconds=0.1)
m.count_read("compositor", "error")
m.set_subscribers(3)
m.add_stream(1)
m.set_upstream_connections(4)
m.count_store_error()
m.set_turns(1)
m.observe_turn(1.0, "ok")
m.count_deleted_threads("age", 2)
m.count_audit_line(True)
m.count_audit_line(False)
"""
