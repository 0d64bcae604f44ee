"""Pieces of a text are added up, also those that repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fast_agent.llm.provider.openai import llm_openai

from pallas_worker.fastagent.streams.deltas import take_deltas_as_they_are

if TYPE_CHECKING:
    import pytest

NAME = "_extract_incremental_delta"


def test_fast_agent_adds_up_what_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = llm_openai.OpenAILLM
    monkeypatch.setattr(owner, NAME, vars(owner)[NAME])
    take_deltas_as_they_are()
    take_deltas_as_they_are()
    text = ""
    told = []
    for piece in ("1", "1", "11", "", "1 apples"):
        news, text = getattr(owner, NAME)(piece, text)
        told.append(news)
    assert told == ["1", "1", "11", "", "1 apples"]
    assert text == "11111 apples"


def test_a_name_that_has_moved_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(llm_openai.OpenAILLM, NAME)
    take_deltas_as_they_are()
    assert "has moved: pieces that repeat what was said may be lost" in caplog.text
