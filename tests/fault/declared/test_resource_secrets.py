"""The values of declared secrets, searched for byte by byte in all that a deployment says, writes and passes on.

The model and the servers quote what they were given, people write it in wrong places, and much fails.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil

from fakes.downstream import Fault, Recorded, run_downstream
from fakes.llm_stub import Asked, Turn, by_request, run_llm_stub
from fakes.otlp_collector import run_collector
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.load.demand import ask, sockets
from support.supervisor.declared import document
from support.worker.secrets import leaked

LLM_KEY = "Jw4opaqueKeyOfTheModel9x"
OTHER_KEY = "Lx5anotherKeyThatIsWrong2q"
HEADER = r"""Pf2"opaque"\key+/of'a%server&<x>=="""
VARIABLE = "Gt6 opaque: \"tökén\" of\ttwo\n  lines, 'of' {a} process # 漢字"
IN_URL = "Hd1tokenInAn.address-of~server_8"
SECRETS = (LLM_KEY, OTHER_KEY, HEADER, VARIABLE, IN_URL)

STDIO_SERVER = """\
import os, sys
sys.path.insert(0, {fakes!r})
import stdio_server
print("started with", os.environ["TOKEN"], file=sys.stderr, flush=True)
def call(tool, arguments):
    print("asked with", os.environ["TOKEN"], file=sys.stderr, flush=True)
    return "my token is " + os.environ["TOKEN"]
stdio_server.call = call
stdio_server.main()
"""
PUBLIC = ("/", "/page/view", "/page/connect", "/metrics", "/health", "/livez", "/readyz", "/v0.1/servers")
CALLS = ('CALL keyed__echo {"text": "hello"}', "CALL spilling__pid {}", "FAIL", "SAY", "hello")


def refuse(request: Recorded) -> Fault | None:
    """Calls of tools are refused, in words that quote what came with the request."""
    if request.rpc_method != "tools/call":
        return None
    given = f"{request.headers.get('x-api-key')} of {IN_URL} is refused"
    return Fault(status=403, body=json.dumps({"error": given}), headers={"X-Refused": given})


def answer(asked: Asked) -> Turn:
    """The model quotes its key, in errors and in answers."""
    if "FAIL" in asked.user or asked.bearer == OTHER_KEY:
        return Turn(status=401, text=f"Incorrect API key provided: {asked.bearer}")
    return Turn(text=f"my key is {asked.bearer}") if "SAY" in asked.user else by_request(asked)


class Found:
    """Where which bytes were seen."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._said: list[tuple[str, bytes]] = []

    def add(self, where: str, said: str | bytes) -> None:
        self._said.append((where, said.encode("utf-8", "surrogatepass") if isinstance(said, str) else said))

    def ctl(self, *arguments: str, status: int = 0) -> str:
        """Run `pallasctl`; what it says is kept, and how it ends is checked."""
        done = self._fleet.ctl(*arguments)
        self.add(f"pallasctl {' '.join(arguments[:4])}", done.stdout + done.stderr)
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def apply(self, text: str) -> list[str]:
        """Apply one file through the API; the outcomes."""
        response = self._fleet.post("/v1/resources", files=[{"file": "given.yaml", "text": text}])
        self.add(f"apply of {text[:80]}", response.text)
        return [result["outcome"] for result in response.json()["results"]]

    def routes(self) -> None:
        """All that the sockets of the deployment answer to a GET."""
        kinds = ("agents", "llms", "secrets", "servers", "projects")
        control = [f"/v1/resources/{kind}" for kind in kinds]
        control += [
            f"/v1/resources/{kind}/{item['metadata']['name']}"
            for kind in kinds
            for item in self._fleet.get(f"/v1/resources/{kind}").json()["items"]
        ]
        control += ["/v1/status", "/v1/health", "/v1/configuration", "/v1/top", "/v1/events?n=4096"]
        control += ["/v1/logs?since=99999", *(f"/v1/agents/{name}" for name in sockets(self._fleet))]
        for path in control:
            response = self._fleet.get(path)
            assert response.status_code == 200, (path, response.text)
            self.add(path, response.content + str(response.headers).encode())
        with httpx.Client(base_url=self._fleet.deployment.registry) as client:
            for path in PUBLIC:
                self.add(f"registry {path}", client.get(path).content)
        for name, path in sockets(self._fleet).items():
            transport = httpx.HTTPTransport(uds=path)
            with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client:
                for route in ("/", "/metrics", "/livez", "/v1/models", f"/v1/models/{name}"):
                    self.add(f"{name} {route}", client.get(route).content)

    def call(self, agent: str, message: str) -> None:
        """Ask the agent, whatever comes; what it answers that fails may quote nothing."""
        try:
            status, said = ask(sockets(self._fleet)[agent], agent, message)
        except (OSError, http.client.HTTPException) as error:
            status, said = 0, repr(error)
        if status != 200:  # what a model and its tools have to say is the agent's own affair
            self.add(f"answer of {agent} to {message}", f"{status} {said}")

    def processes(self) -> None:
        """Arguments and environments of all processes, but for the variables of the server that is told by them."""
        for process in self._fleet.processes():
            directory = Path("/proc", str(process.pid))
            with contextlib.suppress(OSError, psutil.NoSuchProcess):  # it has just ended
                self.add("a process's arguments", (directory / "cmdline").read_bytes())
                if not any("spilling.py" in argument for argument in process.cmdline()):
                    self.add(f"environment of {process.name()}", (directory / "environ").read_bytes())

    def files(self, root: Path, *but: Path) -> None:
        """Names and contents of all files below `root`, without those below one of `but`."""
        for path in root.rglob("*"):
            if any(path.is_relative_to(each) for each in but):
                continue
            self.add("a file's name", str(path))
            if path.is_file():
                self.add(str(path), path.read_bytes())

    def has(self, sign: str) -> bool:
        """Whether this was said anywhere."""
        return any(sign.encode() in said for _, said in self._said)

    def leaks(self) -> set[tuple[str, str]]:
        """Which secrets were seen, and where."""
        return {(where, secret) for where, said in self._said for secret in leaked(said, SECRETS)}


def test_a_declared_secret_is_nowhere_but_in_its_file(tmp_path: Path) -> None:
    given, scratch, edited = (tmp_path / name for name in ("given", "tmp", "edited"))
    for folder in (given, scratch, edited):
        folder.mkdir()
    spilling = given / "spilling.py"
    spilling.write_text(STDIO_SERVER.format(fakes=str(Path(__file__).parents[2] / "fakes")))
    with (
        run_llm_stub(answer=answer) as llm,
        run_downstream(fault=refuse) as keyed,
        run_collector() as collector,
    ):
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "PALLAS_LOG_LEVEL": "DEBUG",
            "PALLAS_ROOT_LOG_LEVEL": "DEBUG",
            "PALLAS_LOG_STDERR": "1",
            "TMPDIR": str(scratch),
            "EDITOR": f"cp -t {edited}",
        }
        deployment = make_deployment(tmp_path / "fleet")
        deployment.settings = {"llm_retries": 0, "logger": {"type": "none", "level": "debug"}}
        deployment.write()
        values = {"LLM": LLM_KEY, "OTHER": OTHER_KEY, "HEADER": HEADER, "VARIABLE": VARIABLE, "URL": IN_URL}
        servers: dict[str, dict[str, Any]] = {
            "keyed": {
                "url": keyed.url + "?token=${secret:keys/URL}",
                "headers": {"X-Api-Key": "${secret:keys/HEADER}"},
            },
            "gone": {"url": "http://127.0.0.1:9/${secret:keys/URL}/mcp"},
            "spilling": {
                "command": sys.executable,
                "args": ["-S", str(spilling)],
                "env": {"TOKEN": "${secret:keys/VARIABLE}"},
            },
        }
        model = {"type": "openai", "model": "stub-model", "url": llm.openai_url}
        documents = [
            document("secret", "keys", data=values),
            *(document("server", name, **spec) for name, spec in servers.items()),
            document("llm", "good", **model, apiKeyRef="keys/LLM"),
            document("llm", "wrong", **model, apiKeyRef="keys/OTHER"),
            document("project", "all", servers=["keyed", "spilling"]),
            document(
                "agent", "talker", llm="good", models=["wrong"], project="all", run={"idle_timeout": 600}
            ),
            document("agent", "locked-out", llm="wrong"),
        ]
        (given / "all.yaml").write_text("\n---\n".join(documents))
        with Fleet(deployment, env=environment) as fleet:
            found = Found(fleet)
            found.ctl("apply", "--dry-run", "-f", str(given / "all.yaml"))
            found.ctl("apply", "-f", str(given / "all.yaml"))
            found.call("locked-out", "hello")
            for message in CALLS:
                found.call("talker", message)
            found.processes()
            found.routes()
            show(found)
            mistake(found, given, values)
            os.kill(fleet.agent("talker")["pid"], signal.SIGKILL)
            fleet.await_that(lambda: fleet.agent("talker")["state"] == "idle", "it can be called again")
            found.call("talker", "SAY")
            changed = (given / "all.yaml").read_text().replace(LLM_KEY, OTHER_KEY)
            (given / "all.yaml").write_text(changed)
            found.ctl("diff", "-f", str(given / "all.yaml"), status=1)
            found.ctl("apply", "-f", str(given / "all.yaml"))
            found.call("talker", "hello")
            tampered = fleet.state / "resources" / "secret" / "keys.yaml"
            kept = tampered.read_text()
            tampered.write_text(
                kept.replace("  LLM: ", "  LLM: [").replace("kind: secret", f"kind: {OTHER_KEY}")
            )
            found.ctl("reload")
            assert "problems" in found.ctl("get", "secret", "keys", "-o", "json")
            tampered.write_text(kept)
            found.ctl("reload")
            found.call("talker", "SAY")
            found.processes()
            found.routes()
            found.ctl("logs", "-n", "100000")
            asked = {each.bearer for each in llm.asked}
            private = fleet.state / "resources" / "secret"
            assert set(leaked(tampered.read_bytes(), SECRETS)) >= {OTHER_KEY, IN_URL}
            assert {stat.S_IMODE(path.stat().st_mode) for path in private.iterdir()} == {0o600}
            found.files(fleet.state, private)
            found.ctl("delete", "-f", str(given / "all.yaml"))
            found.routes()
            assert fleet.stop() == 0
        found.files(tmp_path, given)
        found.add("stderr", fleet.stderr)
        assert b"stub-model" in collector.raw
        found.add("traces", collector.raw)
        assert asked == {LLM_KEY, OTHER_KEY}
        assert {r.headers.get("x-api-key") for r in keyed.requests} == {HEADER}
        assert not (leaks := found.leaks()), "\n".join(map(str, sorted(leaks)))
        assert found.has("provided: [redacted]")
        assert any(edited.iterdir())


def show(found: Found) -> None:
    """All commands that show resources, in all forms."""
    for kind, name in (("secret", "keys"), ("server", "keyed"), ("agent", "talker")):
        found.ctl("describe", kind, name)
    for form in ("wide", "yaml", "json"):
        found.ctl("get", "all", "-o", form)
    found.ctl("edit", "secret", "keys")


def mistake(found: Found, given: Path, values: dict[str, str]) -> None:
    """Values of secrets where none belongs: whatever is answered quotes none."""
    wrong = given / "wrong.yaml"
    for value in values.values():
        misplaced: dict[str, Any] = {"data": {"A": "x"}, value: 1}
        for text in (
            document("agent", "bad", model="passthrough", **{value: "x"}),
            document("agent", "bad", model=7, servers=[value]),
            document("agent", "bad", llm=value),
            document("agent", f"{value}.x", model="passthrough"),
            document("llm", "bad", type=value, model="m", apiKeyRef=value),
            document("server", "bad", url=value, transport=value),
            document("secret", "bad", data={f"{value} ": "x"}),
            document("secret", "bad", data={"A": [value]}),
            document("secret", "bad", **misplaced),
            document("secret", "keys", data={"LLM": {value: value}}),
            document("secret", "keys", resource_version=value, data=values | {"LLM": "y"}),
            f"kind: secret\nmetadata: {{name: x}}\nspec: {{data: {{A: {value}",
        ):
            assert set(found.apply(text)) <= {"refused"}, text
    wrong.write_text(document("agent", "bad", model="passthrough", **dict.fromkeys(values.values(), "x")))
    found.ctl("apply", "-f", str(wrong), status=1)
    found.ctl("diff", "-f", str(wrong), status=2)
