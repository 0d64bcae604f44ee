"""The gateway of a deployment as a caller sees it: one address, a token, MCP in both eras and REST.

Knows HTTP and JSON-RPC; nothing of how the gateway works.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import httpx

from support.ports import free_ports

if TYPE_CHECKING:
    from support.fleet.deployment import Deployment
    from support.fleet.fleet import Fleet

Era = Literal["sessions", "stateless"]
ERAS: tuple[Era, ...] = ("sessions", "stateless")

LATEST = {"sessions": "2025-11-25", "stateless": "2026-07-28"}
ACCEPT = "application/json, text/event-stream"
META = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
TIMEOUT = 90.0

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose parameter of that name is said in the header Mcp-Name, too."""


def with_gateway(deployment: Deployment, **section: Any) -> Deployment:
    """The deployment with a gateway on a free port."""
    deployment.document["gateway"] = {"port": free_ports(1)[0], **section}
    deployment.write()
    return deployment


@dataclass(frozen=True)
class Answer:
    """What came back: the status, and the message that answers the request, if one did."""

    status: int
    message: dict[str, Any]
    headers: httpx.Headers

    @property
    def result(self) -> dict[str, Any]:
        """The result; the request has to have succeeded."""
        assert self.status == 200, (self.status, self.message)
        assert "result" in self.message, self.message
        found: dict[str, Any] = self.message["result"]
        return found

    @property
    def text(self) -> str:
        """The text of a tool's result, or of a resource."""
        parts = self.result.get("content") or self.result.get("contents") or []
        return "\n".join(part.get("text", "") for part in parts)

    @property
    def code(self) -> int | None:
        """Of the error of JSON-RPC, None for a result."""
        error = self.message.get("error")
        return error.get("code") if isinstance(error, dict) else None


@dataclass
class Door:
    """One caller with one token."""

    url: str
    """Of the gateway, without a path."""
    token: str | None
    era: Era = "stateless"
    path: str = "/mcp"
    _session: str | None = None
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    def headers(self, method: str, params: dict[str, Any]) -> dict[str, str]:
        """What a request of MCP has."""
        found = {
            "Accept": ACCEPT,
            "Content-Type": "application/json",
            "MCP-Protocol-Version": LATEST[self.era],
        }
        if self.token is not None:
            found["Authorization"] = f"Bearer {self.token}"
        if self.era == "stateless":
            found["Mcp-Method"] = method
            if (named := NAMED.get(method)) is not None:
                found["Mcp-Name"] = str(params[named])
        elif self._session is not None:
            found["Mcp-Session-Id"] = self._session
        return found

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request of JSON-RPC in the words of the era."""
        if self.era == "stateless":
            meta = {
                f"{META}protocolVersion": LATEST["stateless"],
                f"{META}clientInfo": CLIENT,
                f"{META}clientCapabilities": {},
            }
            params = {**params, "_meta": meta}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}

    def ask(self, method: str, **params: Any) -> Answer:
        """Send one request and wait for its answer; a session is opened where the era has sessions."""
        if self.era == "sessions" and self._session is None and method != "initialize":
            self.open_session()
        return self._post(method, params)

    def open_session(self) -> Answer:
        """Shake hands as clients up to 2025-11-25 do."""
        begun = self._post(
            "initialize",
            {"protocolVersion": LATEST["sessions"], "capabilities": {}, "clientInfo": CLIENT},
        )
        self._session = begun.headers.get("mcp-session-id")
        if self._session is not None:
            body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            httpx.post(
                self.url + self.path,
                json=body,
                headers=self.headers("notifications/initialized", {}),
                timeout=TIMEOUT,
            )
        return begun

    def _post(self, method: str, params: dict[str, Any]) -> Answer:
        message = self.message(method, params)
        answer = httpx.post(
            self.url + self.path, json=message, headers=self.headers(method, params), timeout=TIMEOUT
        )
        return Answer(answer.status_code, answered(answer, message["id"]), answer.headers)

    def tool(self, name: str, /, **arguments: Any) -> Answer:
        """Call a tool."""
        return self.ask("tools/call", name=name, arguments=arguments)

    def read(self, uri: str) -> Answer:
        """Read a resource."""
        return self.ask("resources/read", uri=uri)

    def names(self, what: Literal["tools", "prompts", "resources", "resourceTemplates"]) -> list[str]:
        """All names, or URIs, of a list."""
        method = "resources/templates/list" if what == "resourceTemplates" else f"{what}/list"
        key = {"resources": "uri", "resourceTemplates": "uriTemplate"}.get(what, "name")
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = self.ask(method, **cursor).result
            found += [entry[key] for entry in page[what]]
            if not page.get("nextCursor"):
                return found
            cursor = {"cursor": page["nextCursor"]}

    def rest(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request below `/api/v1`."""
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return httpx.request(method, f"{self.url}/api/v1{path}", headers=headers, timeout=TIMEOUT, **options)


def answered(answer: httpx.Response, id_: object) -> dict[str, Any]:
    """The message that answers the request, out of JSON or an event stream; empty where there is none."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        data = (line[5:].strip() for line in answer.text.splitlines() if line.startswith("data:"))
        messages = [json.loads(each) for each in data if each]
        return next(
            (message for message in messages if message.get("id") == id_ and "method" not in message), {}
        )
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def door(fleet: Fleet, token: str | None = None, era: Era = "stateless", path: str = "/mcp") -> Door:
    """A caller of the deployment's gateway, by default with the first human's token."""
    port = fleet.deployment.document["gateway"]["port"]
    return Door(f"http://127.0.0.1:{port}", token or operator_token(fleet), era, path)


def operator_token(fleet: Fleet) -> str:
    """The first human's token, as soon as there is one."""
    file = fleet.state / "operator.token"
    fleet.await_that(lambda: file.exists() and bool(file.read_text().strip()), "there is a first token")
    return file.read_text().strip()


def await_gateway(fleet: Fleet) -> None:
    """Return once the gateway serves."""

    def serves() -> bool:
        return (fleet.status().get("gateway") or {}).get("state") == "ready"

    fleet.await_that(serves, "the gateway is ready")


def make_token(fleet: Fleet, name: str, *grants: str, agent: str | None = None) -> str:
    """A token with these grants, of a human or of an agent, made as an operator makes it."""
    role = ["--role", "human"] if agent is None else ["--role", "agent", "--agent", agent]
    given = [word for grant in grants for word in ("--grant", grant)]
    done = fleet.ctl("token", "create", name, *role, *given, "-o", "json")
    assert done.returncode == 0, done.stderr
    token: str = json.loads(done.stdout)["token"]
    return token
