"""What a worker tells of its agent's parts: bounded, and without what may be secret."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from pallas_common.protocol.reports import PartReport, ReadyReport, ServerReport, decode_report, encode_report
from pallas_worker.agent.parts import parts_of
from pallas_worker.downstreams.facts import Downstream


def definition(kind: str, servers: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "config": SimpleNamespace(servers=servers or [], model="openai.gpt-5"), **more}


def model_of(config: Any) -> str | None:
    return str(config.model)


def test_the_served_agent_comes_first_with_what_it_is_made_of() -> None:
    definitions = {
        "writer": definition("basic", ["files"]),
        "both": definition("chain", sequence=["writer"]),
    }
    servers = [Downstream(name="files", transport="http", url="http://localhost:1/mcp")]
    parts, told, left_out = parts_of("both", definitions, servers, {"writer": ["files__read"]}, model_of)
    assert parts == (
        PartReport(name="both", kind="chain", model=None, agents=("writer",)),
        PartReport(
            name="writer", kind="agent", model="openai.gpt-5", servers=("files",), tools=("files__read",)
        ),
    )
    assert told == (ServerReport(name="files", transport="http", target="http://localhost:1/mcp"),)
    assert left_out == 0


@pytest.mark.parametrize(
    ("server", "target"),
    [
        ({"url": "https://me:pass@example.com:8443/mcp?key=1#a"}, "https://example.com:8443/mcp"),
        ({"url": "http://[::1]:80/mcp"}, "http://[::1]:80/mcp"),
        ({"url": "http://[broken"}, ""),
        ({"command": "npx", "args": ("-y", "@scope/server", "hunter22")}, "npx @scope/server"),
        ({"command": "server"}, "server"),
    ],
)
def test_a_server_is_told_without_what_may_be_secret(server: dict[str, Any], target: str) -> None:
    facts = Downstream(name="one", transport="http", **server)
    _, (told,), _ = parts_of("a", {"a": definition("basic")}, [facts], {}, model_of)
    assert told.target == target


def test_any_number_of_tools_fits_into_a_line() -> None:
    tools = [f"{'ö' * 300}{number}" for number in range(10_000)]
    parts, servers, left_out = parts_of("a", {"a": definition("basic")}, [], {"a": tools}, model_of)
    report = ReadyReport(model=None, capabilities=None, parts=parts, servers=servers, left_out=left_out)
    line = encode_report(report)
    assert len(line) < 40 * 1024
    assert decode_report(line) == report
    assert json.loads(json.dumps(asdict(report)))["left_out"] == left_out > 0
