"""Threads over REST: made, listed, searched, renamed, deleted, by whom they belong to and by who else may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pallas_gateway.directory.records import AgentRecord
from support.gateway.http.conversations import EVERYTHING, Talk, on_talk

if TYPE_CHECKING:
    from pathlib import Path


def test_a_thread_has_the_fields_of_the_reference(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        made = await talk.ask("POST", "/agents/jarvis/threads", status=201, json={"title": "Plans"})
        assert list(made) == ["id", "agent", "title", "createdAt", "lastTurnAt"]
        assert (made["agent"], made["title"], made["lastTurnAt"]) == ("jarvis", "Plans", None)
        assert await talk.ask("GET", f"/threads/{made['id']}") == made
        done = await talk.chat("Hi", message="Hello", threadId=made["id"])
        now = await talk.ask("GET", f"/threads/{made['id']}")
        assert now["lastTurnAt"]
        [asked, answered] = (await talk.ask("GET", f"/threads/{made['id']}/messages"))["items"]
        assert asked == {
            "threadId": made["id"],
            "turnIndex": 0,
            "role": "user",
            "content": "Hello",
            "toolCalls": None,
            "toolCallId": None,
            "status": "complete",
            "createdAt": asked["createdAt"],
        }
        assert (answered["turnIndex"], answered["content"]) == (done["turnIndex"], "Hi")
        assert await talk.ask("PATCH", f"/threads/{made['id']}", json={"title": "Other"}) == {
            **now,
            "title": "Other",
        }
        assert await talk.ask("DELETE", f"/threads/{made['id']}") == {"deleted": made["id"]}
        for path in ("", "/messages", "/turn", "/export"):
            await talk.ask("GET", f"/threads/{made['id']}{path}", status=404)
        lines = talk.port.audited()
        for action in ("threads/create", "chat", "threads/rename", "threads/delete"):
            assert any(f" {action} " in line for line in lines), action

    on_talk(tmp_path, do)


def test_a_session_is_one_thread(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        made = await talk.ask("POST", "/agents/jarvis/threads", status=201, json={"session": "daily"})
        assert await talk.ask("POST", "/agents/jarvis/threads", json={"session": "daily"}) == made
        other = talk.port.token("bob", "run:agents")
        mine = await talk.ask("POST", "/agents/jarvis/threads", other, status=201, json={"session": "daily"})
        assert mine["id"] != made["id"]

    on_talk(tmp_path, do)


def test_lists_have_the_newest_activity_first_and_come_in_pages(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        made = [
            (await talk.ask("POST", f"/agents/{agent}/threads", status=201, json={"title": f"Number {n}"}))[
                "id"
            ]
            for n, agent in enumerate(("jarvis", "friday", "jarvis", "jarvis"))
        ]
        await talk.chat("the answer has marzipan", message="Hello", threadId=made[0])
        order = [made[0], made[3], made[2], made[1]]

        async def ids(path: str) -> list[str]:
            found: list[str] = []
            cursor = ""
            while True:
                page = await talk.ask("GET", f"{path}{cursor}")
                found += [each["id"] for each in page["items"]]
                if page["nextCursor"] is None:
                    return found
                cursor = f"&cursor={page['nextCursor']}"

        assert await ids("/threads?limit=1") == order
        assert await ids("/threads?limit=4") == order
        assert await ids("/agents/jarvis/threads?limit=2") == [made[0], made[3], made[2]]
        assert await ids("/agents/uid-of-friday/threads?limit=2") == [made[1]]
        assert await ids("/threads?q=marzipan&limit=9") == [made[0]]
        assert await ids("/threads?q=number&limit=9") == order
        for query in (
            "q=" + "x" * 201,
            "owner=bob",
            "limit=0",
            "cursor=x",
            "cursor=WzEsMl0",
            "cursor=WyJ4IiwieCJd",
        ):
            wrong = await talk.ask("GET", f"/threads?{query}", status=400)
            assert wrong["error"]["field"] == query.partition("=")[0]

    on_talk(tmp_path, do)


def test_messages_come_in_pages(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        thread = (await talk.chat("0", message="0"))["threadId"]
        for number in range(1, 4):
            await talk.chat(str(number), message=str(number), threadId=thread)
        first = await talk.ask("GET", f"/threads/{thread}/messages?limit=5")
        assert [each["turnIndex"] for each in first["items"]] == [0, 1, 2, 3, 4]
        rest = await talk.ask("GET", f"/threads/{thread}/messages?cursor={first['nextCursor']}")
        assert ([each["turnIndex"] for each in rest["items"]], rest["nextCursor"]) == ([5, 6, 7], None)
        await talk.ask("GET", f"/threads/{thread}/messages?cursor=IngiDQ", status=400)

    on_talk(tmp_path, do)


def test_a_thread_is_its_owners_and_others_need_grants(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        thread = (await talk.chat("Hi", message="Hello"))["threadId"]
        port = talk.port
        title = {"json": {"title": "x"}}
        requests: list[tuple[str, str, dict[str, Any], str]] = [
            ("GET", "", {}, "view"),
            ("GET", "/messages", {}, "view"),
            ("GET", "/turn", {}, "view"),
            ("GET", "/export", {}, "view"),
            ("PATCH", "", title, "edit"),
            ("DELETE", "/turn", {}, "edit"),
            ("DELETE", "", {}, "delete"),
        ]
        for method, path, options, verb in requests:
            for name, grants, status in (
                ("stranger", EVERYTHING, 404),
                ("viewer", (*EVERYTHING, "view:threads:jarvis"), 200 if verb == "view" else 403),
                ("elsewhere", (*EVERYTHING, "view:threads:friday", "edit:threads:friday"), 404),
                ("without the agent", ("view:threads", f"{verb}:threads"), 403),
                (
                    "all but the deletion",
                    (*EVERYTHING, "view:threads", "edit:threads"),
                    403 if verb == "delete" else 200,
                ),
            ):
                token = port.token(name, *grants)
                answer = await port.ask(method, f"/api/v1/threads/{thread}{path}", token, **options)
                assert answer.status_code == status, (method, path, name, answer.text)
        admin = port.token("admin", "*")
        assert [each["id"] for each in (await talk.ask("GET", "/threads", admin))["items"]] == []
        assert [each["id"] for each in (await talk.ask("GET", "/threads?owner=all", admin))["items"]] == [
            thread
        ]
        await talk.ask("GET", "/threads?owner=all", port.token("x", *EVERYTHING), status=403)
        await talk.ask("GET", "/threads", port.token("y", "view:agents"), status=403)
        assert (await talk.ask("DELETE", f"/threads/{thread}", admin))["deleted"] == thread

    on_talk(tmp_path, do)


def test_an_agents_token_reads_its_own_threads_and_no_others(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        mine = talk.port.token("friday's", "run:agents:jarvis", agent="friday")
        thread = (await talk.chat("Hi", message="Hello", token=mine))["threadId"]
        assert len((await talk.ask("GET", f"/threads/{thread}/messages", mine))["items"]) == 2
        other = (await talk.chat("Hi", message="Hello"))["threadId"]
        await talk.ask("GET", f"/threads/{other}/messages", mine, status=404)
        await talk.ask("GET", "/threads?owner=all", mine, status=403)
        runs_only = talk.port.token("ada2", "run:agents")
        third = (await talk.chat("Hi", message="Hello", token=runs_only))["threadId"]
        await talk.ask("GET", f"/threads/{third}/messages", runs_only, status=403)

    on_talk(tmp_path, do)


def test_a_thread_goes_with_its_agent(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        made = await talk.ask("POST", "/agents/friday/threads", status=201)
        talk.agents.agents["friday"] = AgentRecord(name="friday", uid="uid-of-another", source="resource")
        await talk.ask("GET", f"/threads/{made['id']}", status=404)
        assert (await talk.ask("GET", "/agents/friday/threads"))["items"] == []
        talk.agents.agents.clear()
        talk.agents.away = "the supervisor is away"
        await talk.ask("GET", f"/threads/{made['id']}", status=503)

    on_talk(tmp_path, do)


def test_a_deleted_thread_ends_its_turn(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        thread = (await talk.ask("POST", "/agents/jarvis/threads", status=201))["id"]
        asking, exchange = await talk.begin(message="Tell me", threadId=thread)
        await talk.ask("DELETE", f"/threads/{thread}")
        await exchange.gone()
        assert (await asking).status_code >= 400

    on_talk(tmp_path, do)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"title": 5}, "title"),
        ({"title": " "}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"session": ""}, "session"),
        ({"name": "x"}, "name"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, body: Any, field: str) -> None:
    async def do(talk: Talk) -> None:
        error = (await talk.ask("POST", "/agents/jarvis/threads", status=400, json=body))["error"]
        assert error["field"] == field
        made = await talk.ask("POST", "/agents/jarvis/threads", status=201)
        await talk.ask("PATCH", f"/threads/{made['id']}", status=400, json=body)

    on_talk(tmp_path, do)


def test_who_keeps_too_much_is_refused_until_something_is_deleted(tmp_path: Path) -> None:
    async def do(talk: Talk) -> None:
        made = await talk.ask("POST", "/agents/jarvis/threads", status=201, json={})
        await talk.chat("Hi", message="x" * 900_000, threadId=made["id"])
        said = {"message": "x" * 200_000, "threadId": made["id"]}
        refused = await talk.ask("POST", "/agents/jarvis/chat", status=507, json=said)
        assert refused["error"]["type"] == "storage_exceeded"
        assert "1 MiB" in refused["error"]["message"]
        assert "delete threads" in refused["error"]["message"]
        lines = (await talk.ask("GET", f"/threads/{made['id']}/messages"))["items"]
        assert len(lines) == 2, "nothing of it was kept"
        await talk.chat("Hi", message="short", threadId=made["id"])
        other = talk.port.token("bob", "run:agents")
        await talk.ask("POST", "/agents/jarvis/threads", other, status=201, json={})
        await talk.ask("DELETE", f"/threads/{made['id']}")
        await talk.chat("Hi", message="x" * 900_000)

    on_talk(tmp_path, do, storage=1024**2)
