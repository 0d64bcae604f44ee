"""The log of a run in which much fails and much is said: whole lines, full tracebacks, and no secret in any form."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import httpx2
import yaml
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from fakes.downstream import Fault, Recorded, run_downstream
from fakes.llm_stub import Asked, Turn, by_request, run_llm_stub
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_types import CallToolResult

CALLERS = [f"Caller{number}-{'kRz7Wq' * 4}{number}" for number in range(9)]
"""Bearers without any telling look."""
LLM_KEY = "Jw4opaqueKeyOfTheModel9x"
SERVER_KEY = "Pf2opaqueKeyOfAServer+/8y"
TOKEN = 'Gt6 opaque "tökén" of the forge'
PASSWORD = "Hd1passwordInAnAddress"
SECRETS = (*CALLERS, LLM_KEY, SERVER_KEY, TOKEN, PASSWORD)

AGENT = """\
import base64
import logging
import os
import sys

from fast_agent import FastAgent
from fast_agent.agents import McpAgent
from fast_agent.mcp.auth.context import request_bearer_token

fast = FastAgent("test", parse_cli_args=False)
log = logging.getLogger("some.library")
print("the forge's token is", os.environ["FORGE_TOKEN"])


class Talkative(McpAgent):
    async def generate(self, messages, request_params=None, tools=None):
        token = request_bearer_token.get()
        print("printed for", token, flush=True)
        print(token, file=sys.stderr)
        log.warning("asked by %s", token, extra={"caller": {"of": [token]}})
        log.warning("which is %s", base64.b64encode(f"user:{token}".encode()).decode())
        if "BREAK" in messages[-1].all_text():
            raise ValueError(f"{token} is not welcome at https://me:{os.environ['FORGE_URL'][11:33]}@forge")
        return await super().generate(messages, request_params, tools)


@fast.custom(Talkative, name="talker", instruction="Talk.", servers=["opted", "keyed", "gone"])
async def talker() -> None: ...
"""

BROKEN = """\
import os

raise RuntimeError(f"cannot log in with {os.environ['FORGE_TOKEN']}")
"""


def refuse(request: Recorded) -> Fault | None:
    """The tools of callers with an even number are refused, in words that quote the request's credentials."""
    if request.rpc_method != "tools/call" or int(request.json["params"]["arguments"]["text"]) % 2:
        return None
    given = f"{request.bearer} {request.headers.get('x-api-key')}"
    encoded = base64.b64encode(f"no: {given}".encode()).decode()
    return Fault(status=401, body=f"{given} is refused ({encoded})", headers={"X-Refused": given})


def answer(asked: Asked) -> Turn:
    """The model fails for some callers, in words that quote the key."""
    if "FAIL" in asked.user:
        return Turn(status=401, text=f"Incorrect API key provided: {asked.bearer}")
    return by_request(asked)


async def run_calls(url: str) -> list[CallToolResult]:
    async def one(number: int, bearer: str) -> CallToolResult:
        tools = "\n".join(f'CALL {server}__echo {{"text": "{number}"}}' for server in ("opted", "keyed"))
        message = (tools, "FAIL", "BREAK")[number % 3]
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {bearer}"}, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await client.call_tool("send_message", {"message": message})

    return await asyncio.gather(*(one(number, bearer) for number, bearer in enumerate(CALLERS)))


def test_nothing_secret_is_in_the_log_and_every_line_is_whole(tmp_path: Path) -> None:
    with (
        run_llm_stub(answer=answer) as llm,
        run_downstream(fault=refuse) as opted,
        run_downstream(fault=refuse) as keyed,
    ):
        deployment = make_deployment(tmp_path / "fleet", "talker")
        deployment.add("broken", max_failures=1)
        modules = deployment.directory / "agents"
        (modules / "talker.py").write_text(AGENT)
        (modules / "broken.py").write_text(BROKEN)
        config: dict[str, Any] = {
            "default_model": "openai.stub-model",
            "openai": {"base_url": llm.openai_url},
            "llm_retries": 0,
            "logger": {"type": "none", "level": "debug"},
        }
        servers: dict[str, dict[str, Any]] = {
            "opted": {"transport": "http", "url": opted.url, "forward_inbound_auth": True},
            "keyed": {"transport": "http", "url": keyed.url, "headers": {"X-Api-Key": "${SERVER_KEY}"}},
            "gone": {"transport": "http", "url": f"http://me:{PASSWORD}@127.0.0.1:9/mcp"},
        }
        secrets = {"openai": {"api_key": LLM_KEY}}
        (deployment.directory / "fastagent.config.yaml").write_text(
            yaml.safe_dump({**config, "mcp": {"servers": servers}})
        )
        (deployment.directory / "fastagent.secrets.yaml").write_text(yaml.safe_dump(secrets))
        (deployment.directory / ".env").write_text(f"FORGE_TOKEN='{TOKEN}'\n")
        environment = {
            "SERVER_KEY": SERVER_KEY,
            "FORGE_URL": f"https://me:{PASSWORD}@forge",
            "PALLAS_LOG_LEVEL": "DEBUG",
            "PALLAS_ROOT_LOG_LEVEL": "DEBUG",
            "PALLAS_LOG_STDERR": "1",
        }
        with Fleet(deployment, env=environment) as fleet:
            fleet.wait("talker")
            fleet.wait("broken", until="settled")
            results = asyncio.run(run_calls(deployment.url("talker")))
            fleet.kill("talker")
            results += asyncio.run(run_calls(deployment.url("talker")))
            shown = [fleet.get(path).text for path in ("/v1/status", "/v1/health", "/v1/logs?since=9999")]
            assert fleet.stop() == 0
        bearers = {request.bearer for request in opted.requests}
        assert bearers >= set(CALLERS), "the callers' tokens were used"
        assert {request.headers.get("x-api-key") for request in keyed.requests} == {SERVER_KEY}
        assert {asked.bearer for asked in llm.asked} == {LLM_KEY}

    files = sorted(fleet.log_file.parent.glob("pallas.log*"))
    written = b"".join(path.read_bytes() for path in files)
    assert leaked(written, SECRETS) == []
    assert leaked(fleet.stderr, SECRETS) == []
    assert leaked("".join(shown), SECRETS) == []
    assert leaked("".join(result.model_dump_json() for result in results), SECRETS) == []

    records = [json.loads(line) for line in written.splitlines()]
    assert all(record["time"] and record["level"] and record["logger"] for record in records)
    assert all(isinstance(json.loads(line), dict) for line in fleet.stderr.splitlines())
    traces = [record for record in records if record["logger"] == "pallas.forward.trace"]
    assert all(trace["agent"] == "talker" and "Traceback" in trace["exception"] for trace in traces)
    refused = [trace for trace in traces if trace.get("tool") == "echo"]
    assert {trace["server"] for trace in refused} == {"opted", "keyed"}
    assert all("MCPError" in trace["exception"] and trace["request_id"] for trace in refused)
    said = [record["message"] for record in records]
    for sign in (
        *("asked by [redacted]", "printed for [redacted]"),
        *("the forge's token is [redacted]", "cannot log in with [redacted]"),
    ):
        assert any(sign in message for message in said), sign
    broken = next(r for r in records if r["message"].startswith("the call failed"))
    assert "[redacted] is not welcome" in broken["exception"]
