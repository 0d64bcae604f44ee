"""`/api/v1/tokens`, asked over HTTP by those who may and those who may not."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pallas_common.protocol.gateway import OPERATOR_FILE, GatewaySettings
from pallas_gateway.access.audit import Audit
from pallas_gateway.access.limits import Limiter
from pallas_gateway.http.api.tokens import TokenRoutes
from pallas_gateway.http.app import GatewayApp
from pallas_gateway.identity.in_flight import InFlight
from pallas_gateway.identity.principals import Principals
from pallas_gateway.identity.sources import AgentKey
from pallas_gateway.store.database import Store, open_store
from pallas_gateway.store.deployment.operator import ensure_operator_token
from pallas_gateway.store.principals import TokenRecords
from support.gateway.tokens import WorkersInMemory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AGENTS = {"jarvis": AgentKey("jarvis", "u-1"), "friday": AgentKey("friday", None)}


async def find_agent(name: str) -> AgentKey | None:
    return AGENTS.get(name)


SETTINGS = GatewaySettings(bind="127.0.0.1", public_url="http://gateway.test")


class Api:
    """The application over a real store, and its operator."""

    def __init__(self, app: GatewayApp, store: Store, folder: Path) -> None:
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway.test")
        self.store = store
        self.folder = folder

    @property
    def operator(self) -> str:
        return (self.folder / OPERATOR_FILE).read_text().strip()

    async def ask(
        self, method: str, path: str = "", body: Any = None, *, token: str | None = None, status: int = 200
    ) -> dict[str, Any]:
        answer = await self._client.request(
            method,
            f"/api/v1/tokens{path}",
            headers={"Authorization": f"Bearer {token or self.operator}"},
            json=body,
        )
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def create(self, **fields: Any) -> dict[str, Any]:
        return await self.ask(
            "POST", "", {"name": "laptop", "role": "human", "grants": ["*"], **fields}, status=201
        )

    def audit(self) -> list[tuple[str, str, str]]:
        lines = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        return [(line["action"], line["target"], line["outcome"]) for line in lines]


@asynccontextmanager
async def api(folder: Path) -> AsyncIterator[Api]:
    store = open_store(f"sqlite:{folder / 'gateway.db'}")
    await ensure_operator_token(store, folder)
    in_flight = InFlight()
    principals = Principals(TokenRecords(store), WorkersInMemory(), in_flight)
    audit = Audit(folder)
    routes = TokenRoutes(store, audit, changed=principals.recheck, find_agent=find_agent, directory=folder)
    app = GatewayApp(
        SETTINGS,
        principals,
        Limiter(SETTINGS.limits),
        in_flight,
        endpoint=None,  # type: ignore[arg-type]
        surfaces=None,  # type: ignore[arg-type]
        health=lambda: "ok",
        routes=routes.routes(),
    )
    yield Api(app, store, folder)
    audit.close()
    await store.close()


def test_a_token_is_made_used_listed_rotated_and_revoked(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            made = await asked.create(expires="30d")
            first = made.pop("token")
            assert made["created_by"].startswith("tok_")
            assert made["expires"] > made["created"]
            listed = (await asked.ask("GET", token=first))["tokens"]
            assert [one["name"] for one in listed] == ["operator", "laptop"]
            assert listed[1] | {"last_used": None} == made

            rotated = await asked.ask("POST", f"/{made['id']}/rotate", {}, token=first, status=201)
            second = rotated["token"]
            assert rotated["rotated_from"] == made["id"]
            await asked.ask("GET", token=first, status=401)
            await asked.ask("GET", token=second)

            assert await asked.ask("DELETE", f"/{rotated['id']}") == {"id": rotated["id"], "revoked": True}
            await asked.ask("GET", token=second, status=401)
            assert len((await asked.ask("GET"))["tokens"]) == 1
            assert len((await asked.ask("GET", "?all=true"))["tokens"]) == 3
            assert asked.audit() == [
                ("token.create", f"token/{made['id']}", "ok"),
                ("token.rotate", f"token/{made['id']}", "ok"),
                ("token.revoke", f"token/{rotated['id']}", "ok"),
            ]
            texts.extend((first, second, asked.operator))

    texts: list[str] = []
    asyncio.run(live())
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name != OPERATOR_FILE)
    assert len(texts) == 3
    for text in texts:
        assert text.encode() not in kept


def test_an_agents_token_has_its_agent_and_may_run_others_alone(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            made = await asked.create(
                role="agent", agent="jarvis", grants=["run:agents:friday", "run:agents:x-*"]
            )
            assert (made["role"], made["agent"], made["tenant"]) == ("agent", "jarvis", "default")
            assert made["grants"] == ["run:agents:friday", "run:agents:x-*"]
            records = TokenRecords(asked.store)
            assert await records.agents() == {AGENTS["jarvis"]}
            await asked.ask("GET", token=made["token"], status=403)
            revoked = await records.revoke_agents([AGENTS["jarvis"], AGENTS["friday"]])
            assert revoked == [(AGENTS["jarvis"], made["id"])]
            assert not await records.agents()

    asyncio.run(live())


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"name": ""}, "name", "printable"),
    ({"name": "a\nb"}, "name", "printable"),
    ({"name": "x" * 101}, "name", "100"),
    ({"name": 1}, "name", "printable"),
    ({"role": "root"}, "role", "human"),
    ({"role": None}, "role", "agent"),
    ({"tenant": "acme"}, "tenant", "default"),
    ({"agent": "jarvis"}, "agent", "human"),
    ({"role": "agent", "grants": []}, "agent", "which agent"),
    ({"role": "agent", "agent": "no/such", "grants": []}, "agent", "letters"),
    ({"role": "agent", "agent": "unknown", "grants": []}, "agent", "no agent 'unknown'"),
    ({"role": "agent", "agent": "jarvis", "grants": ["*"]}, "grants", "run:agents"),
    ({"role": "agent", "agent": "jarvis", "grants": ["view:agents"]}, "grants", "run:agents"),
    ({"role": "agent", "agent": "jarvis", "grants": ["run:projects"]}, "grants", "run:agents"),
    ({"role": "agent", "agent": "jarvis", "grants": ["run:*"]}, "grants", "run:agents"),
    ({"grants": []}, "grants", "one at least"),
    ({"grants": "*"}, "grants", "list"),
    ({"grants": [1]}, "grants", "list"),
    (
        {"grants": ["view:agent"]},
        "grants",
        "is no grant: there is no kind 'agent'; did you mean `view:agents`?",
    ),
    ({"grants": ["vew:agents:jarvis"]}, "grants", "did you mean `view:agents:jarvis`?"),
    ({"grants": ["run:agent:jarvis"]}, "grants", "did you mean `run:agents:jarvis`?"),
    ({"grants": ["fly:agents"]}, "grants", "there is no verb 'fly'; there are view,"),
    ({"grants": ["view:agents"] * 201}, "grants", "200"),
    ({"expires": "soon"}, "expires", "30d"),
    ({"expires": ""}, "expires", "30d"),
    ({"expires": 30}, "expires", "30d"),
    ({"expires": "0s"}, "expires", "future"),
    ({"expires": "2001-01-01"}, "expires", "future"),
    ({"expires": "2030-01-01T00:00:00"}, "expires", "zone"),
    ({"expires": "9999-01-01"}, "expires", "3660"),
    ({"expires": "999999d"}, "expires", "3660"),
    ({"secret": "x"}, "secret", "unknown field"),
]
"""What is said instead of what would be right; the field that is complained of, and what is said of it."""


def test_what_is_wrong_is_said_with_its_field(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            for fields, field, said in WRONG:
                body = {"name": "laptop", "role": "human", "grants": ["*"], **fields}
                error = (await asked.ask("POST", "", body, status=422))["error"]
                assert (error["type"], error["field"]) == ("invalid", field), fields
                assert said in error["message"], fields
            assert asked.audit() == [("token.create", "token", "error")] * len(WRONG)
            assert len((await asked.ask("GET"))["tokens"]) == 1

    asyncio.run(live())


def test_a_date_counts_to_its_end(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            day = (dt.datetime.now(dt.UTC) + dt.timedelta(days=10)).date()
            made = await asked.create(expires=day.isoformat())
            assert made["expires"] == f"{day + dt.timedelta(days=1)}T00:00:00Z"
            exact = await asked.create(expires=f"{day}T12:00:00+02:00")
            assert exact["expires"] == f"{day}T10:00:00Z"

    asyncio.run(live())


@pytest.mark.parametrize("grants", [["view:agents"], ["*:agents", "view:*", "edit:code"], ["*:*:x"]], ids=str)
def test_who_lacks_the_grant_for_everything_is_refused(tmp_path: Path, grants: list[str]) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            token = (await asked.create(grants=grants))["token"]
            ours = (await asked.ask("GET"))["tokens"][0]["id"]
            for method, path in (
                ("GET", ""),
                ("POST", ""),
                ("DELETE", f"/{ours}"),
                ("POST", f"/{ours}/rotate"),
            ):
                body = {"name": "mine", "role": "human", "grants": ["*"]} if method == "POST" else None
                error = (await asked.ask(method, path, body, token=token, status=403))["error"]
                assert error == {"type": "insufficient_scope", "message": "this takes the grant *"}
            assert asked.audit()[1:] == [
                ("token.create", "token", "denied"),
                ("token.revoke", f"token/{ours}", "denied"),
                ("token.rotate", f"token/{ours}", "denied"),
            ]
            assert len((await asked.ask("GET", "?all=true"))["tokens"]) == 2

    asyncio.run(live())


def test_a_token_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            made = await asked.create()
            await asked.ask("DELETE", f"/{made['id']}")
            for method, path in (
                ("DELETE", "/tok_none"),
                ("POST", "/tok_none/rotate"),
                ("POST", f"/{made['id']}/rotate"),
            ):
                error = (await asked.ask(method, path, status=404))["error"]
                assert "pallasctl token list" in error["message"]
            await asked.ask("POST", f"/{made['id']}/rotate", {"grace": "91d"}, status=422)
            await asked.ask("GET", "?every=true", status=400)

    asyncio.run(live())


def test_the_operators_file_follows_the_rotation_of_its_token(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            before = asked.operator
            (own,) = (await asked.ask("GET"))["tokens"]
            new = await asked.ask("POST", f"/{own['id']}/rotate", {"grace": "1h"}, status=201)
            assert asked.operator == new["token"] != before
            assert (tmp_path / OPERATOR_FILE).stat().st_mode & 0o777 == 0o600
            await asked.ask("GET", token=before)
            assert not await ensure_operator_token(asked.store, tmp_path)

    asyncio.run(live())


def test_the_operators_token_is_not_revoked_by_the_way(tmp_path: Path) -> None:
    async def live() -> None:
        async with api(tmp_path) as asked:
            (operator,) = (await asked.ask("GET"))["tokens"]
            refused = (await asked.ask("DELETE", f"/{operator['id']}", status=409))["error"]
            assert refused["type"] == "conflict"
            assert f"`pallasctl token rotate {operator['id']}`" in refused["message"]
            assert "`--force`" in refused["message"]
            before = asked.operator
            rotated = await asked.ask("POST", f"/{operator['id']}/rotate", {"grace": "1h"}, status=201)
            assert asked.operator != before
            (old,) = [one for one in (await asked.ask("GET"))["tokens"] if one["id"] == operator["id"]]
            assert rotated["old_expires"] == old["expires"] is not None
            # It is another's by now, however it was made.
            assert (await asked.ask("DELETE", f"/{operator['id']}"))["revoked"]
            assert (await asked.ask("DELETE", f"/{rotated['id']}?force=true"))["revoked"]
            await asked.ask("GET", status=401)

    asyncio.run(live())
