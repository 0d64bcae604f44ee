"""`pallasctl reload`: what is asked and what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakes.control_server import status

if TYPE_CHECKING:
    from fakes.control_server import FakeControl


def test_reload(fake: FakeControl) -> None:
    document = {
        "dry_run": True,
        "added": ["writer"],
        "removed": ["critic"],
        "changed": [{"agent": "jarvis", "fields": ["port", "title"], "action": "rebind"}],
        "unchanged": ["research", "engineering"],
    }
    fake.answer("/v1/reload", document)
    result = fake.run("reload", "--dry-run")
    assert fake.requests == [("POST", "/v1/reload", {"dry_run": True})]
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "a reload would do this:",
        "+ writer",
        "- critic",
        "~ jarvis: port, title (restart on another port)",
        "= unchanged: research, engineering",
    ]


def test_reload_without_a_change(fake: FakeControl) -> None:
    fake.answer(
        "/v1/reload", {"dry_run": False, "added": [], "removed": [], "changed": [], "unchanged": ["a"]}
    )
    assert fake.run("reload").stdout == "nothing changed\n"


NOTHING: dict[str, Any] = {
    "dry_run": True,
    "added": [],
    "removed": [],
    "changed": [],
    "unchanged": [],
}
HERE = {"bind": "127.0.0.1", "port": 24199, "public_url": "http://localhost:24199"}
THERE = {"bind": "127.0.0.1", "port": 24198, "public_url": "http://localhost:24198"}


def change(
    kind: str, *fields: str, action: str | None = None, before: object = HERE, after: object = HERE
) -> dict[str, Any]:
    return {"change": kind, "fields": list(fields), "action": action, "before": before, "after": after}


@pytest.mark.parametrize(
    ("gateway", "lines"),
    [
        (
            change("added", before=None),
            [
                "+ gateway: http://localhost:24199/mcp",
                "  its token for pallasctl and you: /var/lib/x/operator.token",
            ],
        ),
        (change("removed", after=None), ["- gateway"]),
        (change("changed", "limits", action="respawn"), ["~ gateway: limits (new process)"]),
        (change("changed", "max_failures", action="live"), ["~ gateway: max_failures (no restart)"]),
        (
            change("changed", "port", "limits", action="rebind", after=THERE),
            ["~ gateway: port 24199 -> 24198, limits (new process at http://localhost:24198/mcp)"],
        ),
    ],
)
def test_what_becomes_of_the_gateway(fake: FakeControl, gateway: dict[str, Any], lines: list[str]) -> None:
    document = status()
    document["supervisor"]["state_directory"] = "/var/lib/x"
    fake.answer("/v1/status", document)
    fake.answer("/v1/reload", {**NOTHING, "gateway": gateway})
    assert fake.run("reload", "--dry-run").stdout.splitlines() == ["a reload would do this:", *lines]


def test_reload_of_a_wrong_file(fake: FakeControl) -> None:
    problems = ["agents.yaml:3: agents.a.prot: unknown key; did you mean `port`?", "agents.yaml:9: …"]
    fake.answer(
        "/v1/reload", {"error": "agents.yaml is wrong; nothing was changed", "problems": problems}, 422
    )
    result = fake.run("reload")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "pallasctl: agents.yaml is wrong; nothing was changed",
        *(f"  {problem}" for problem in problems),
    ]
