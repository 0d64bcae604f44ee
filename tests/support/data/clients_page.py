"""`docs/clients.md` as data: its tables and code blocks.

Knows Markdown as that page is written; must not know what is true of it.
"""

from __future__ import annotations

import re

from support.repository import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text()


def table(first: str) -> list[list[str]]:
    """The rows of the one table whose first heading is `first`: their cells, without the back ticks of whole cells."""
    (found,) = re.findall(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [line.strip().strip("|").split("|") for line in found.splitlines()]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in row] for row in rows]


def blocks(language: str) -> list[str]:
    """The code blocks in this language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def words() -> str:
    """The page on one line, for sentences that stand on several."""
    return " ".join(PAGE.split())
