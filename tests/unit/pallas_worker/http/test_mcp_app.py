"""Arguments of large calls are checked beside the loop, in both eras, and bodies of too many values not at all."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import httpx
import pytest

from pallas_common.http.json_bounds import MOST_VALUES
from pallas_worker.calls.large import LARGE
from pallas_worker.http import mcp_app
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.interface.errors import ArgumentError, FailedTurn
from support.worker.raw import raw_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SPEC: Any = SimpleNamespace(
    agent="demo",
    title="Demo",
    description="",
    version="1",
    deployment="tests",
    output_schema=None,
    key=None,
    siblings_key=None,
    is_behind=False,
    overrides=False,
    port=1,
    max_request_bytes=64 * 1024**2,
)


class Turns:
    """Reads what it is asked, and gives no answer."""

    async def turn(self, read: Callable[[], Any], _caller: object) -> Any:
        try:
            read()
        except ArgumentError as error:
            raise FailedTurn("argument", str(error), error) from None
        raise AssertionError("nothing of it is wrong")


async def post(headers: dict[str, str], body: str) -> httpx.Response:
    """The answer to a body whose length no header tells."""
    calls: Any = Turns()
    nobody: Any = None
    worker = WorkerApp(SPEC, calls, nobody)
    transport = httpx.ASGITransport(worker.asgi(("localhost",)))

    async def content() -> AsyncIterator[bytes]:
        yield body.encode()

    async with worker.server.session_manager.run(), httpx.AsyncClient(transport=transport) as client:
        return await client.post("http://localhost/mcp", headers=headers, content=content())


@pytest.mark.parametrize(("size", "here"), [(1, True), (LARGE, False)])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_large_arguments_are_checked_beside_the_loop(mode: str, size: int, here: bool) -> None:
    checked: list[bool] = []

    def check(arguments: Any) -> None:
        assert arguments == {"message": "x" * size}
        checked.append(threading.current_thread() is threading.main_thread())
        raise ArgumentError("not this one")

    with mock.patch.object(mcp_app, "parse_send_message", check):
        response = asyncio.run(post(*raw_call(mode, "x" * size)))
    assert checked == [here]
    assert "not this one" in response.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_more_values_than_any_conversation_has_are_refused(mode: str) -> None:
    headers, body = raw_call(mode, "x")
    call = json.loads(body)
    call["params"]["arguments"]["history"] = [[]] * MOST_VALUES
    response = asyncio.run(post(headers, json.dumps(call)))
    assert response.status_code == 413
    assert response.json()["error"]["message"] == "The body has more than 100000 values"
