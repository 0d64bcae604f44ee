"""Every message on the page of troubleshooting is one that Pallas has: in a golden file, or in the sources."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from support.repository import ROOT
from support.sources import modules

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
VARYING = "…"


def messages() -> list[str]:
    """What is quoted: in bold, between two backticks; those of other programs are in italics."""
    return re.findall(r"\*\*``(.+?)``\*\*", PAGE)


@functools.cache
def known() -> str:
    """What Pallas prints, in the golden files, and could print: the texts of the sources, `…` for what they insert."""
    golden = [path.read_text() for path in sorted((ROOT / "tests" / "mistakes" / "golden").rglob("*.txt"))]
    return "\n".join(
        [*golden, *(text for path in modules().values() for text in _texts(ast.parse(path.read_text())))]
    )


def _texts(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append(
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else VARYING for part in node.values
                )
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


@pytest.mark.parametrize("message", messages())
def test_a_message_on_the_page_is_one_of_ours(message: str) -> None:
    parts = [re.escape(part) for part in message.strip().split(VARYING)]
    assert max(map(len, parts)) >= 8, "too little to be searched for"
    assert re.search(".{0,300}?".join(parts), known()), message


def test_all_marked_messages_are_found() -> None:
    assert len(messages()) > 60
    assert PAGE.count("**") == 2 * len(messages())
