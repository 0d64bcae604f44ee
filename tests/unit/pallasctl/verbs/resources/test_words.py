"""What is named on a command line: kinds, singular or plural, and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.shell_completion import ShellComplete

from pallas_registry.resources.model import ResourceId
from pallasctl.main import pallasctl
from pallasctl.verbs.resources.words import one_resource, path_of, resources_of

if TYPE_CHECKING:
    from fakes.control_server import FakeControl


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("agent a", "agent/a"),
        ("Agents b a b", "agent/b agent/a"),
        ("llm/gpt.5 secrets/key", "llm/gpt.5 secret/key"),
        ("project p", "project/p"),
    ],
)
def test_what_is_meant(words: str, meant: str) -> None:
    assert " ".join(map(str, resources_of(words.split()))) == meant


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("agnets a", "there is no kind 'agnets'; did you mean 'agents'?"),
        ("thread a", "there is no kind 'thread'; the kinds are: agent, llm, secret, server, project"),
        ("llm", "which llm? Name one: `pallasctl get llms` lists them"),
        ("agent/a b", "'b' is no KIND/NAME, as others are: say each as `agent/jarvis`"),
        ("agent/", "'agent/' is no KIND/NAME, as others are: say each as `agent/jarvis`"),
    ],
)
def test_what_is_not(words: str, said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        resources_of(words.split())
    assert refused.value.message == said


def test_one_at_a_time() -> None:
    with pytest.raises(click.UsageError, match="one at a time: name one agent"):
        one_resource(["agent", "a", "b"])


def test_a_name_cannot_lead_elsewhere() -> None:
    assert path_of(ResourceId("llm", "../x?y")) == "/v1/resources/llm/..%2Fx%3Fy"


@pytest.mark.parametrize(
    ("typed", "incomplete", "offered"),
    [
        ("get", "se", ["secret", "secrets", "server", "servers"]),
        ("get agents", "", ["jarvis", "june"]),
        ("get agents jarvis", "j", ["june"]),
        ("get", "agent/ju", ["agent/june"]),
        ("delete llm", "", []),
        ("describe agent", "ja", ["jarvis"]),
        ("create agent --llm", "", []),
        ("create", "se", ["secret", "server"]),
    ],
)
def test_the_shell_completes_kinds_and_names(
    fake: FakeControl, monkeypatch: pytest.MonkeyPatch, typed: str, incomplete: str, offered: list[str]
) -> None:
    monkeypatch.setenv("PALLAS_CONTROL_SOCKET", str(fake.socket))
    names = ["jarvis", "june", "other"]
    fake.answer("/v1/resources/agent", {"items": [{"metadata": {"name": name}} for name in names]})
    fake.answer("/v1/status", {"agents": [{"name": name} for name in names]})
    completer = ShellComplete(pallasctl, {}, "pallasctl", "_PALLASCTL_COMPLETE")
    found = [item.value for item in completer.get_completions(typed.split(), incomplete)]
    assert [each for each in found if each != "other"] == offered
