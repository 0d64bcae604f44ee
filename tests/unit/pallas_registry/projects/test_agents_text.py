"""The text of a new agents.yaml: whatever a project holds, it is read as what was meant."""

from __future__ import annotations

import pytest
import yaml

from pallas_registry.projects.agents_text import comment, scalar


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a",
            "yes",
            "null",
            "No",
            "1.0",
            "0x1f",
            "a: b",
            "a:b",
            "a.py:create()",
            "a #b",
            "- a",
            "it's",
            'say "x"',
        ),
        *(
            "é",
            "日本",
            "*a",
            "&a",
            "{a}",
            "[a]",
            "a,",
            "@a",
            "`a`",
            "%a",
            "a\\nb",
            " a",
            "a ",
            "2026-01-31",
            "~",
            "!x",
        ),
        *("\U0001f600 agent", "cards/", ".fast-agent/x.md", "a\u2028b", "a\u0085b", "x" * 300),
    ],
)
def test_a_scalar_is_read_as_it_was(text: str) -> None:
    assert yaml.safe_load(f"key: {scalar(text)} # why\n") == {"key": text}


def test_a_comment_stays_on_its_line() -> None:
    assert comment("a\nb\rc\u2028d\x1be") == "a?b?c?d?e"
    assert len(comment("x" * 1000)) == 300
