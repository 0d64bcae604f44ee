"""The gateway under load while what it keeps things in is away: a PostgreSQL that is killed, a disk that is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from fakes.downstream import run_downstream
from support.faults.small_disk import small_disk
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import Door, await_gateway, door, make_token, with_gateway
from support.gateway.load import UNLIMITED, Callers, Making, audited, check_made
from support.gateway.postgres import shared_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakes.downstream import RunningDownstream
    from support.faults.small_disk import SmallDisk


@pytest.fixture
def tools() -> Iterator[RunningDownstream]:
    with run_downstream() as running:
        yield running


def made(path: Path, tools: RunningDownstream, env: dict[str, str] | None = None, **gateway: object) -> Fleet:
    """A fleet with one agent, which has one server."""
    deployment = make_deployment(path)
    deployment.servers = {"tools": {"transport": "http", "url": tools.url}}
    deployment.add("worker", servers=("tools",))
    with_gateway(deployment, limits=UNLIMITED, **gateway)
    return Fleet(deployment, env=env)


def calling(fleet: Fleet, token: str) -> Callers:
    """Callers of the server's tool."""
    port = fleet.deployment.document["gateway"]["port"]
    return Callers(port, token, 2, "tools__echo", {"text": "marco"}, "marco")


def await_health(fleet: Fleet, health: str) -> str:
    """What is said of the gateway once that is its health, there and at its own port."""
    fleet.await_that(lambda: fleet.status()["gateway"]["health"] == health, f"the gateway is {health}")
    assert httpx.get(f"{door(fleet).url}/health").json() == {"status": health}
    return str(fleet.status()["gateway"]["message"])


def refused(answer: httpx.Response) -> str:
    """Why, where a caller is asked to come again."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) > 0
    return str(answer.json()["error"]["message"])


def ping(caller: Door) -> httpx.Response:
    """An answer, whatever it is, to the cheapest request that takes a token."""
    message = caller.message("server/discover", {})
    return httpx.post(
        f"{caller.url}/mcp", json=message, headers=caller.headers("server/discover", {}), timeout=90
    )


def test_a_postgresql_that_is_killed_loses_nothing_that_was_acknowledged(
    tmp_path: Path, tools: RunningDownstream
) -> None:
    postgres = shared_postgres()
    with made(tmp_path / "fleet", tools, store=postgres.new_database()) as fleet:
        fleet.wait()
        await_gateway(fleet)
        await_health(fleet, "ok")
        process = fleet.status()["gateway"]["pid"]
        callers = calling(fleet, make_token(fleet, "caller", agent="worker"))
        stranger = door(fleet, make_token(fleet, "stranger", "view:agents"))
        with callers, Making(door(fleet)) as making:
            callers.until_more(20)
            making.until_more(3)
            postgres.kill()
            try:
                assert "store" in await_health(fleet, "degraded")
                assert "store" in refused(ping(stranger)), "nobody has looked it up before"
            finally:
                postgres.start()
            callers.until_more(20)
            making.until_more(3)
        assert ping(stranger).status_code == 200
        assert await_health(fleet, "ok") == ""
        assert fleet.status()["gateway"]["pid"] == process, "it has mended itself"
        assert not callers.tally.refused
        assert not callers.tally.wrong
        check_made(door(fleet), making.made)
        assert set(callers.tally.answered) <= audited(fleet.state)


def test_a_store_of_another_deployment_is_refused_until_it_is_taken_over(tmp_path: Path) -> None:
    url = shared_postgres().new_database()
    first, second = (Fleet(with_gateway(make_deployment(tmp_path / name), store=url)) for name in ("a", "b"))
    second.deployment.document["name"] = "second"
    second.deployment.write()
    with first:
        await_gateway(first)
        token = make_token(first, "mine", "view:agents")
        with second:
            second.await_that(
                lambda: second.status()["gateway"]["state"] == "failed", "the second is refused"
            )
            said = second.status()["gateway"]["message"]
            name = first.status()["deployment"]
            assert f"belongs to the deployment '{name}'" in said, said
            assert "this is 'second'" in said
        assert door(first, token).rest("GET", "/agents").status_code == 200
    with second:
        adopted = second.pallas("store", "adopt", "--yes")
        assert adopted.returncode == 0, adopted.stderr
        assert second.ctl("gateway", "restart").returncode == 0
        await_gateway(second)
        assert door(second, token).rest("GET", "/agents").status_code == 200


def test_on_a_full_disk_nothing_is_done_unaudited_and_reads_go_on(
    tmp_path: Path, tools: RunningDownstream
) -> None:
    try:
        disk = small_disk(tmp_path / "disk", 24)
        with disk as mounted:
            state = mounted.path / "state"
            fleet = made(tmp_path / "fleet", tools, env={"PALLAS_STATE_DIR": str(state)})
            fleet.state = state
            with fleet:
                fill_and_clear(fleet, mounted)
    except RuntimeError as error:
        pytest.skip(f"not run: {error}")


def fill_and_clear(fleet: Fleet, disk: SmallDisk) -> None:
    """Fill the disk of a fleet's state under load, and make room again."""
    fleet.wait()
    await_gateway(fleet)
    await_health(fleet, "ok")
    process = fleet.status()["gateway"]["pid"]
    token = make_token(fleet, "caller", agent="worker")
    callers, caller = calling(fleet, token), door(fleet, token)
    operator, doomed = door(fleet), door(fleet, make_token(fleet, "doomed", "view:agents"))
    made = operator.rest("POST", "/agents/worker/threads", json={}).json()["id"]
    with callers, Making(door(fleet)) as making:
        callers.until_more(20)
        making.until_more(3)
        with disk.full():
            assert "make room on" in await_health(fleet, "degraded")
            fleet.await_that(
                lambda: caller.tool("tools__echo", text="polo").status == 503, "calls are refused"
            )
            called = caller.tool("tools__echo", text="polo")
            assert "audit" in called.message["error"]["message"], called.message
            assert "disk" in called.message["error"]["message"], called.message
            assert "tools__echo" in caller.names("tools")
            assert door(fleet).rest("GET", "/tokens").status_code == 200
            new = {"name": "new", "role": "human", "grants": ["view:agents"]}
            assert "audit" in refused(door(fleet).rest("POST", "/tokens", json=new))
            id_ = next(
                each["id"]
                for each in operator.rest("GET", "/tokens").json()["tokens"]
                if each["name"] == "doomed"
            )
            assert doomed.rest("GET", "/agents").status_code == 200
            for path in (f"/tokens/{id_}", f"/threads/{made}"):
                gone = operator.rest("DELETE", path)
                assert gone.status_code == 200, gone.text
            assert doomed.rest("GET", "/agents").status_code == 401
            assert operator.rest("GET", f"/threads/{made}").status_code == 404
            assert f"token/{id_}" in fleet.state.joinpath("audit.jsonl").read_text()
        callers.until_more(20)
        making.until_more(3)
    assert await_health(fleet, "ok") == ""
    assert fleet.status()["gateway"]["pid"] == process
    assert not callers.tally.refused
    assert not callers.tally.wrong
    check_made(door(fleet), making.made)
    assert set(callers.tally.answered) <= audited(fleet.state)
