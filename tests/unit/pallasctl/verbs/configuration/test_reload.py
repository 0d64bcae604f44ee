"""`pallasctl reload`: what is asked and what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
