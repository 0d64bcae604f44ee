"""Tokens that are wrong, or that end in the middle of a stream."""

from __future__ import annotations

import asyncio
import json
import secrets
import string
from typing import TYPE_CHECKING

import httpx
import pytest

from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import ERAS, Door, Era, await_gateway, door, make_token, with_gateway
from support.gateway.mcp.subscriber import Subscriber

if TYPE_CHECKING:
    from collections.abc import Iterator

WRONG = 10_000
AT_A_TIME = 16


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    deployment = make_deployment(tmp_path_factory.mktemp("f") / "fleet", "jarvis")
    with_gateway(deployment)
    with Fleet(deployment) as fleet:
        fleet.wait()
        await_gateway(fleet)
        yield fleet


@pytest.mark.parametrize("era", ERAS)
def test_a_revoked_token_ends_its_streams_and_nobody_elses(fleet: Fleet, era: Era) -> None:
    made = fleet.ctl(
        "token", "create", f"short-{era}", "--role", "human", "--grant", "view:agents", "-o", "json"
    )
    short = json.loads(made.stdout)
    kept = make_token(fleet, f"kept-{era}", "view:agents")
    port = fleet.deployment.document["gateway"]["port"]
    uri = "resource://agents/jarvis/state"

    async def follow() -> None:
        async with (
            Subscriber(port, short["token"], [uri], era) as revoked,
            Subscriber(port, kept, [uri], era) as other,
        ):
            assert revoked.honoured == other.honoured == [uri]
            done = await asyncio.to_thread(fleet.ctl, "token", "revoke", short["id"])
            assert done.returncode == 0, done.stderr
            await revoked.until_ended()
            await asyncio.to_thread(fleet.ctl, "restart", "--now", "jarvis")
            await other.until(uri)
            assert not other.ended
            assert not revoked.updated

    asyncio.run(follow())
    assert Door(door(fleet).url, short["token"]).ask("tools/list").status == 401


def test_ten_thousand_wrong_tokens_are_refused_and_right_ones_are_not(fleet: Fleet) -> None:
    right = door(fleet)
    url = f"{right.url}/mcp"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert right.token is not None
    head, kind, text, check = right.token.split("_")
    letters = string.ascii_letters + string.digits

    def wrong(number: int) -> str:
        random = "".join(secrets.choice(letters) for _ in range(len(text)))
        choices = (
            f"{head}_{kind}_{random}_{check}",
            f"{head}_agent_{text}_{check}",
            f"{head}_{kind}_{text}",
            random,
            text + check,
            "x" * 4000,
        )
        return choices[number % len(choices)]

    async def attack() -> set[int]:
        seen: set[int] = set()
        limits = httpx.Limits(max_connections=AT_A_TIME)
        async with httpx.AsyncClient(limits=limits, timeout=90) as client:

            async def some(first: int) -> None:
                for number in range(first, WRONG, AT_A_TIME):
                    headers = {"Authorization": f"Bearer {wrong(number)}", "Accept": "application/json"}
                    seen.add((await client.post(url, json=body, headers=headers)).status_code)

            await asyncio.gather(*(some(first) for first in range(AT_A_TIME)))
        return seen

    assert asyncio.run(attack()) <= {401, 429}
    assert right.ask("tools/list").result["tools"]
    assert fleet.status()["gateway"]["restarts"] == 0
