"""The shortcuts of a start: settings are what they would be without them."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from fast_agent.agents.llm_decorator import LlmDecorator
from fast_agent.config import Settings
from fast_agent.types import PromptMessageExtended
from mcp_types import CallToolResult, TextContent
from pydantic import ValidationError
from pydantic_settings import SettingsError

from pallas_worker.fastagent import shortcuts

if TYPE_CHECKING:
    from pathlib import Path

NAME = "_without_ambiguous_home_source"
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"HOME": "/root", "OPENAI_API_KEY": "k", "A": "1"},
    {"DEFAULT_MODEL": "passthrough"},
    {"openai__api_key": "k"},
    {"LOGGER": '{"level": "debug"}'},
    {"HF": "no JSON"},
)
FILES = ("", "A=1\nOPENAI_API_KEY=k\nEMPTY=\n", "OPENAI__API_KEY=k\nB=2\n", "HOME=/here\n", "llm_retries=5\n")


@pytest.mark.parametrize(("environment", "file"), [*product(ENVIRONMENTS, FILES)])
def test_settings_are_the_same(
    environment: dict[str, str], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(file)
    for name in os.environ:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Settings, NAME, staticmethod(shortcuts._settings_source))
    expected = read()
    shortcuts.take_shortcuts_at_start()
    assert getattr(Settings, NAME) is not shortcuts._settings_source
    assert read() == expected


USER = PromptMessageExtended(role="user", content=[TextContent(type="text", text="x")])
ASSISTANT = PromptMessageExtended(role="assistant", content=[TextContent(type="text", text="y")])
RESULTS = PromptMessageExtended(role="user", content=[], tool_results={"1": CallToolResult(content=[])})


@pytest.mark.parametrize("messages", [[], [USER], [USER, ASSISTANT, USER], [USER, ASSISTANT, RESULTS]])
def test_a_conversation_without_results_before_its_end_is_not_copied_once_more(
    messages: list[PromptMessageExtended],
) -> None:
    theirs = shortcuts._merge_copies(messages)
    shortcuts.take_shortcuts()
    ours = LlmDecorator._merge_trailing_tool_result_turn(messages)
    assert ours == theirs
    assert all(one is other for one, other in zip(ours, messages, strict=True))


@pytest.mark.parametrize("last", [USER, RESULTS, ASSISTANT])
@pytest.mark.parametrize("before", [USER, RESULTS, ASSISTANT])
def test_results_and_what_is_said_behind_them_are_one_message(
    before: PromptMessageExtended, last: PromptMessageExtended
) -> None:
    messages = [USER, before, last]
    assert shortcuts._merge_trailing_results(messages) == shortcuts._merge_copies(messages)


def read() -> dict[str, Any] | str:
    try:
        return Settings(logger={"type": "none"}).model_dump()
    except (SettingsError, ValidationError) as error:
        return str(error)
