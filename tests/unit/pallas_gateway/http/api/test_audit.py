"""`GET /api/v1/audit`: who may, which lines, and refusals."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.access.audit import Audit, Entry
from pallas_gateway.http.api.audit import audit_routes
from pallas_gateway.http.errors import ApiError
from pallas_gateway.http.requests import ADMITTED
from pallas_gateway.identity.grants import parse_grant
from pallas_gateway.identity.principal import Principal
from pallas_gateway.mcp.admitted import Admitted
from pallas_gateway.mcp.surface import InsufficientScopeError

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message

OPERATOR = Principal(id="op", name="op", role="human", grants=(parse_grant("*"),))


class Client:
    """Asks the route."""

    def __init__(self, directory: Path) -> None:
        self.audit = Audit(directory, clock=lambda: 100.0)
        self.streams = 0

    def _opens(self) -> None:
        self.streams += 1

    def ask(self, query: str = "", principal: Principal = OPERATOR) -> bytes:
        """The body; of an answer without end its beginning."""
        admitted = Admitted(
            principal=principal,
            path="/api/v1/audit",
            request_id="r",
            headers={},
            opens_stream=self._opens,
            subscribes=lambda: None,
            most_subscriptions=1,
            longest_body=1,
        )
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/audit",
            "query_string": query.encode(),
            "headers": [],
            ADMITTED: admitted,
        }
        (route,) = audit_routes(self.audit.path)
        body, begun = b"", asyncio.Event()

        async def send(message: Message) -> None:
            nonlocal body
            body += message.get("body", b"")
            if body:
                begun.set()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def run() -> None:
            async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
                answering = asyncio.ensure_future(route.app(scope, receive, send))
                waiting = tasks.create_task(begun.wait())
                await asyncio.wait({answering, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if answering.done():
                    await answering
                answering.cancel()

        try:
            asyncio.run(run())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return body

    def lines(self, query: str = "") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ask(query).splitlines()]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    client = Client(tmp_path)
    for number in range(3):
        client.audit.write(Entry(principal=OPERATOR, action="tools/call", target=str(number)))
    return client


def test_the_newest_lines_oldest_first(client: Client) -> None:
    assert [line["target"] for line in client.lines("n=2&principal=op")] == ["1", "2"]
    assert [line["target"] for line in client.lines("since=1970-01-01T02:01:40%2B02:00")] == ["0", "1", "2"]
    assert client.lines("since=1970-01-01T00:01:41") == []
    assert client.lines("action=token") == []


@pytest.mark.parametrize("grants", [[], ["view:agents"], ["view:*", "edit:*", "run:*"]])
def test_only_whoever_may_everything(client: Client, grants: list[str]) -> None:
    with pytest.raises(InsufficientScopeError):
        client.ask("", Principal(id="x", name="x", role="human", grants=tuple(map(parse_grant, grants))))
    agent = Principal(id="x", name="x", role="agent", agent="x", grants=OPERATOR.grants)
    with pytest.raises(InsufficientScopeError):
        client.ask("", agent)


@pytest.mark.parametrize(
    "query",
    ["n=x", "n=-1", "n=1&n=2", "since=soon", "since=99999-01-01", "other=1", "principal=" + "x" * 500],
)
def test_what_is_no_parameter_is_refused(client: Client, query: str) -> None:
    with pytest.raises(ApiError) as raised:
        client.ask(query)
    assert raised.value.status == 400


def test_following_holds_no_place(client: Client) -> None:
    assert len(client.ask("follow=1").splitlines()) == 3
    assert client.streams == 1
