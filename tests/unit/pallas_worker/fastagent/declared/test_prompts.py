"""A prompt is rendered as it was written, whatever stands in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fast_agent.core.instruction import InstructionBuilder
from hypothesis import given
from hypothesis import strategies as st

from pallas_worker.fastagent.declared.prompts import inert


def rendered(template: str) -> str:
    builder = InstructionBuilder(template).set("workspaceRoot", str(Path(__file__).parent)).set("x", "FILLED")
    return asyncio.run(builder.build())


@pytest.mark.parametrize(
    "text",
    [
        "{{x}} {{currentDate}} {{file:test_prompts.py}} {{file_silent:test_prompts.py}} {{internal:nothing}}",
        "{{url:http://127.0.0.1:9/}}",
        "{{{x}}} {{{{x}}}} \\{{x}} \\\\{{x\\}} }}{{ {{ }} {",
        "",
    ],
)
def test_a_prompt_is_no_template(text: str) -> None:
    assert rendered(inert(text)) == text


@given(st.text(alphabet="{}\\x: ", max_size=40))
def test_braces_stay_as_they_are(text: str) -> None:
    assert rendered(inert(text)) == text
