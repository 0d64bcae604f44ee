"""The YAML of an agent card with its lines: what fast-agent reads, and where each key stands.

Reads one file; knows nothing of agents. What a card means, fast-agent decides.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAXIMUM_BYTES = 1 << 20
"""A card beyond this is taken for a mistake."""

MAXIMUM_NODES = 20_000
"""Values of a card that are looked at."""


class CardError(Exception):
    """A card that cannot be read: in which line, if in one, and why."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class CardText:
    """The keys of a card. Lines count from 1 in the file."""

    root: yaml.MappingNode | None
    """None for a card in TOML, of which nothing is known."""
    offset: int
    """Lines before the YAML."""

    def line(self, *path: str) -> int | None:
        """Where the key at the end of `path` stands, or the last one on the way that is there."""
        node: yaml.Node | None = self.root
        line = None
        for name in path:
            found = next(((key, value) for key, value in _entries(node) if key.value == name), None)
            if found is None:
                break
            line, node = self._line_of(found[0]), found[1]
        return line

    def keys(self, *path: str) -> list[str]:
        """The keys of the mapping at `path`."""
        node: yaml.Node | None = self.root
        for name in path:
            node = next((value for key, value in _entries(node) if key.value == name), None)
        return [key.value for key, _ in _entries(node)]

    def text(self, name: str) -> str | None:
        """The value of this key, if it is a single one."""
        node = next((value for key, value in _entries(self.root) if key.value == name), None)
        return node.value if isinstance(node, yaml.ScalarNode) else None

    def place_of(self, text: str) -> tuple[str, int] | None:
        """The key below which this text stands as a value, and the line of the text."""
        for key, value in _entries(self.root):
            for node in _scalars(value):
                if node.value == text:
                    return key.value, self._line_of(node)
        return None

    def texts(self) -> Iterator[str]:
        """All single values."""
        return (node.value for node in _scalars(self.root))

    def _line_of(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + 1 + self.offset


def read_card(path: Path) -> CardText | None:
    """The keys of the card at `path`; None for Markdown without front matter, which is no card.

    Raises:
        CardError: it cannot be read, or is not one YAML mapping.
    """
    text = _text(path)
    offset = 0
    if path.suffix.lower() in (".md", ".markdown"):
        lines = text.splitlines()
        first = next((number for number, line in enumerate(lines) if line.strip()), None)
        if first is None or lines[first].strip() not in ("---", "+++"):
            return None
        if lines[first].strip() == "+++":
            return CardText(None, 0)
        offset = first + 1
        end = next((at for at in range(offset, len(lines)) if lines[at].strip() == "---"), None)
        if end is None:
            raise CardError(offset, "the front matter has no end: close it with a line `---`")
        text = "\n".join(lines[offset:end])
    return CardText(_mapping(text, offset), offset)


def _mapping(text: str, offset: int) -> yaml.MappingNode:
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except RecursionError:
        raise CardError(None, "is nested too deep") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(part for part in (error.problem, error.context) if part)
        raise CardError(None if mark is None else mark.line + 1 + offset, f"not YAML: {why}") from None
    except yaml.YAMLError as error:
        raise CardError(None, f"not YAML: {' '.join(str(error).split())}") from None
    if len(documents) > 1:
        line = documents[1].start_mark.line + 1 + offset
        raise CardError(
            line, "a second YAML document, which nobody reads: put each agent into a card of its own"
        )
    root = documents[0] if documents else None
    if not isinstance(root, yaml.MappingNode):
        raise CardError(offset + 1, "has no `key: value` lines: write at least `name:`")
    seen: set[str] = set()
    for key, _ in _entries(root):
        if key.value in seen:
            raise CardError(
                key.start_mark.line + 1 + offset, f"`{key.value[:100]}` is given twice: remove one of the two"
            )
        seen.add(key.value)
    return root


def _entries(node: yaml.Node | None) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key, value


def _scalars(root: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """The single values of a node, keys too, as far as they are looked at."""
    waiting, seen = [root], 0
    while waiting and seen < MAXIMUM_NODES:
        node = waiting.pop()
        seen += 1
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting.extend(item for entry in node.value for item in entry)


def _text(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CardError(None, "is not a regular file")
            data = file.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise CardError(None, f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAXIMUM_BYTES:
        raise CardError(None, f"has more than {MAXIMUM_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CardError(line, "is not UTF-8: save it as UTF-8") from None
