"""Tokens and secrets of servers, searched for byte by byte in all that a deployment with a gateway says and writes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from fakes.downstream import Fault, Recorded, run_downstream
from fakes.otlp_collector import run_collector
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, Door, await_gateway, door, with_gateway
from support.supervisor.declared import document
from support.worker.secrets import leaked

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY_OF_SERVER = "Wq8opaqueKeyOfTheServer4d"
CONTROL = (
    "/v1/status",
    "/v1/health",
    "/v1/configuration",
    "/v1/events?n=4096",
    "/v1/logs?since=99999",
    "/v1/agents/jarvis",
)
PUBLIC = (
    "/",
    "/page/view",
    "/page/connect",
    "/metrics",
    "/health",
    "/v0.1/servers",
    "/.well-known/mcp/server.json",
)
OPEN = ("/health", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp")


def quote(request: Recorded) -> Fault | None:
    """Calls are refused, in words that quote what came with the request."""
    if request.rpc_method != "tools/call":
        return None
    given = f"{request.headers.get('x-api-key')} {request.headers.get('authorization')} is refused"
    return Fault(status=403, body=json.dumps({"error": given}), headers={"X-Refused": given})


class Said:
    """What was seen, and where."""

    def __init__(self) -> None:
        self._said: list[tuple[str, bytes]] = []

    def add(self, where: str, said: str | bytes) -> None:
        self._said.append((where, said.encode("utf-8", "surrogatepass") if isinstance(said, str) else said))

    def holds(self, sign: bytes) -> bool:
        return any(sign in said for _, said in self._said)

    def leaks(self, secrets: list[str]) -> set[tuple[str, str]]:
        """Where a secret was seen, and the beginning of which."""
        return {(where, secret[:14]) for where, said in self._said for secret in leaked(said, secrets)}


def whole(answer: httpx.Response) -> bytes:
    """An answer with its headers."""
    return b"\n".join([*(b"%s: %s" % header for header in answer.headers.raw), answer.content])


def ctl(fleet: Fleet, said: Said, *arguments: str) -> str:
    """Run `pallasctl`; what it says is kept."""
    done = fleet.ctl(*arguments)
    said.add(f"pallasctl {' '.join(arguments[:3])}", done.stdout + done.stderr)
    return done.stdout


def make(fleet: Fleet, said: Said, *arguments: str) -> dict[str, Any]:
    """Make a token; its text may be shown this once, on stdout alone."""
    done = fleet.ctl("token", "create", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    said.add("stderr of token create", done.stderr)
    made: dict[str, Any] = json.loads(done.stdout)
    said.add("token create, but for the token", json.dumps({**made, "token": ""}))
    return made


def misplace(caller: Door, said: Said) -> None:
    """The token where none belongs: in paths, queries, other headers, arguments, names and bodies."""
    token = str(caller.token)
    with httpx.Client(base_url=caller.url, timeout=60) as client:
        for path in (
            f"/mcp?access_token={token}",
            f"/{token}",
            f"/mcp/agents/{token}",
            f"/mcp/projects/{token}",
            f"/api/v1/resources/agent/{token}",
            f"/api/v1/resources/{token}",
            f"/api/v1/tokens/{token}",
            f"/api/v1/audit?principal={token}&{token}=1",
        ):
            said.add(f"answer at {path[:12]}", whole(client.get(path)))
            authorized = {"Authorization": f"Bearer {token}"}
            for method in ("GET", "POST", "PUT", "DELETE"):
                answer = client.request(method, path, headers=authorized, json={token: token})
                said.add(f"authorized {method} at {path[:12]}", whole(answer))
            said.add(
                "another",
                whole(client.post(path, content=token, headers={"X-Request-Id": token, "Origin": token})),
            )
        for header in (
            f"Basic {token}",
            token,
            f"Bearer {token} {token}",
            f"bearer  {token}x",
            f"Bearer {token[:-1]}",
        ):
            answer = client.post("/mcp", json={}, headers={"Authorization": header})
            said.add("answer to a wrong header", whole(answer))
        for name in ("X-Forwarded-For", "User-Agent", "traceparent", "Mcp-Session-Id", "Mcp-Name", "Host"):
            answer = client.post("/mcp", json={}, headers={name: token, "Authorization": f"Bearer {token}"})
            said.add(f"answer to a wrong {name}", whole(answer))
    for era in ERAS:
        asking = Door(caller.url, caller.token, era)
        for refused in (
            asking.tool(token),
            asking.tool("agents_restart", name=token),
            asking.tool("agents_create", name=token, spec={"model": token, token: 1}),
            asking.read(f"resource://agents/{token}/info"),
            asking.ask(token),
            asking.ask("resources/subscribe", uri=token),
        ):
            said.add("answer to a misplaced token", json.dumps(refused.message))


def everything(fleet: Fleet, said: Said) -> None:
    """All that the deployment answers by itself, its processes and its files."""
    for path in CONTROL:
        said.add(path, fleet.get(path).content)
    with httpx.Client(timeout=60) as client:
        for path in PUBLIC:
            said.add(f"registry {path}", client.get(fleet.deployment.registry + path).content)
        for path in OPEN:
            said.add(f"gateway {path}", client.get(door(fleet).url + path).content)
    for process in fleet.processes():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            said.add("arguments", Path("/proc", str(process.pid), "cmdline").read_bytes())
            said.add(
                f"environment of {process.name()}", Path("/proc", str(process.pid), "environ").read_bytes()
            )


def files(root: Path, *but: Path) -> Iterator[Path]:
    """All files below it, without those."""
    return (
        path
        for path in root.rglob("*")
        if path.is_file() and not any(path.is_relative_to(each) for each in but)
    )


def await_tool(fleet: Fleet, caller: Door, tool: str) -> None:
    """Return once the tool is in the caller's list."""
    fleet.await_that(lambda: tool in caller.names("tools"), f"{tool} is listed")


def test_tokens_and_secrets_are_nowhere(tmp_path: Path) -> None:
    said = Said()
    with run_downstream() as tools, run_collector() as collector:
        deployment = make_deployment(tmp_path / "fleet", "jarvis")
        deployment.servers = {
            "tools": {"transport": "http", "url": tools.url, "headers": {"X-Api-Key": KEY_OF_SERVER}}
        }
        deployment.add("worker", servers=("tools",), depends_on=["jarvis"])
        with_gateway(deployment, limits={"requests_per_minute": 100_000})
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "PALLAS_LOG_LEVEL": "DEBUG",
            "PALLAS_ROOT_LOG_LEVEL": "DEBUG",
            "PALLAS_LOG_STDERR": "1",
        }
        with Fleet(deployment, env=environment) as fleet:
            fleet.wait()
            await_gateway(fleet)
            human = make(fleet, said, "someone", "--role", "human", "--grant", "*")
            agent = make(
                fleet,
                said,
                "an agent",
                "--role",
                "agent",
                "--agent",
                "worker",
                "--grant",
                "run:agents:jarvis",
            )
            rotated = json.loads(fleet.ctl("token", "rotate", human["id"], "-o", "json").stdout)
            tokens = [
                human["token"],
                agent["token"],
                rotated["token"],
                (fleet.state / "operator.token").read_text().strip(),
            ]
            caller, worker = door(fleet, rotated["token"]), door(fleet, agent["token"])
            given = tmp_path / "given.yaml"
            given.write_text(document("agent", "made", model="passthrough"))
            ctl(fleet, said, "apply", "-f", str(given))
            for era in ERAS:
                asking, calling = Door(caller.url, caller.token, era), Door(worker.url, worker.token, era)
                assert "hello" in asking.tool("ask_agent", name="jarvis", prompt="hello").text
                await_tool(fleet, calling, "tools__echo")
                assert "polo" in calling.tool("tools__echo", text="polo").text
                assert "hello" in calling.tool("agent-jarvis__chat", message="hello").text
            misplace(caller, said)
            misplace(worker, said)
            tools.fault = quote
            said.add("a refused call", json.dumps(worker.tool("tools__echo", text="again").message))
            tools.fault = None
            for arguments in (
                ("token", "list"),
                ("token", "list", "-o", "json"),
                ("token", "revoke", agent["id"]),
                ("audit", "-n", "1000", "-o", "json"),
                ("audit",),
                ("gateway", "status", "-o", "json"),
                ("status", "-o", "json"),
                ("events",),
            ):
                ctl(fleet, said, *arguments)
            os.kill(fleet.status()["gateway"]["pid"], signal.SIGKILL)
            await_gateway(fleet)
            assert caller.ask("tools/list").result
            everything(fleet, said)
            assert fleet.stop() == 0
        private = (fleet.state / "operator.token", deployment.directory / "fastagent.config.yaml")
        for path in files(tmp_path / "fleet", *private):
            said.add(str(path), path.read_bytes())
        assert collector.raw
        said.add("traces", collector.raw)
        seen = {request.headers.get("authorization") for request in tools.requests}
        assert seen <= {None}, "the caller's token goes no further"
        assert KEY_OF_SERVER in {request.headers.get("x-api-key") for request in tools.requests}
    assert said.holds(b"tools/call"), "the audit was looked at"
    assert not (leaks := said.leaks([*tokens, KEY_OF_SERVER])), "\n".join(map(str, sorted(leaks)))
