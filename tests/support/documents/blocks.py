"""The fenced blocks of a page of the documentation.

Knows Markdown's fences and what stands behind their language: `not run: REASON` for commands that no test can run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_FENCED = re.compile(r"^( *)```(\w*) *([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"not run: (.+)")


class Block(NamedTuple):
    """One block."""

    language: str
    """As behind the fence: `bash`, `yaml`, `text`; empty without one."""
    info: str
    """What stands behind the language."""
    text: str
    line: int
    """Of the opening fence, from 1."""

    @property
    def not_run(self) -> str | None:
        """Why its commands are not run; None where they are."""
        match = _NOT_RUN.fullmatch(self.info)
        return match[1] if match else None


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in their order."""
    text = page.read_text()
    found = []
    for match in _FENCED.finditer(text):
        indent, language, info, content = match.groups()
        content = re.sub(rf"^{indent}", "", content, flags=re.MULTILINE)
        found.append(Block(language, info.strip(), content, text.count("\n", 0, match.start()) + 1))
    return found


def commands_of(page: Path) -> list[str]:
    """The lines of a page's commands, also of those that are not run."""
    blocks = [block for block in blocks_of(page) if block.language == "bash"]
    return [line for block in blocks for line in block.text.splitlines() if line]
