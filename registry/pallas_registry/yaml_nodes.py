"""YAML text as nodes that remember their lines, with everything refused that YAML lets slip silently.

Knows YAML, and nothing of what the keys mean. Duplicate keys, keys that are no text, unknown tags and endless
merges become problems; aliases and merge keys (`<<`) work as in YAML 1.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import yaml

from pallas_registry.problems import ConfigurationError, Problem, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAXIMUM_BYTES = 1 << 20
"""A configuration file beyond this is taken for a mistake."""

_MERGE_DEPTH = 16
_MERGE_TAG = "tag:yaml.org,2002:merge"
_CORE_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")
)
_LINE_END = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
_REMEDIES = (
    ("'\\t'", "indent with spaces, not with tabs"),
    (
        "mapping values are not allowed",
        "check the indentation, and put a value that contains a colon in quotes",
    ),
    ("cannot start any token", "put the value in quotes"),
    ("undefined alias", "define the anchor (&name) further up, or put the value in quotes"),
    ("duplicate anchor", "give each anchor a name of its own"),
    ("another document", "keep one document in the file: remove what follows the second `---`"),
    ("end of stream", "close the quote or the bracket that is open there"),
    ("<stream end>", "close the quote or the bracket that is open there"),
    ("block end", "check the indentation: entries of one mapping or list start in the same column"),
    ("could not find expected ':'", "write the line as `key: value`"),
)


class Entry(NamedTuple):
    """One `key: value` of a mapping; `line` is the key's, counted from 1."""

    key: str
    value: yaml.Node
    line: int


def compose(data: bytes, file: str) -> yaml.Node | None:
    """The root node of the one YAML document in `data`, or None if there is nothing in it.

    Raises:
        ConfigurationError: not UTF-8, a byte order mark, too large, nested too deeply, or not YAML; one
            problem, as nothing after it can be trusted.
    """

    def refuse(line: int | None, message: str, remedy: str) -> ConfigurationError:
        return ConfigurationError([Problem(file, line, "", message, remedy)])

    if len(data) > MAXIMUM_BYTES:
        raise refuse(
            None,
            f"has {len(data)} bytes, more than any real configuration",
            "check that it is the right file",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refuse(1, "is UTF-16", "save the file as UTF-8")
    if data.startswith(b"\xef\xbb\xbf"):
        raise refuse(1, "starts with a byte order mark", "save the file as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refuse(
            line, f"the byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8"
        ) from None
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        message = " ".join(part for part in (error.context, error.problem) if part)
        remedy = next((remedy for part, remedy in _REMEDIES if part in message), "correct the YAML there")
        raise refuse(line, f"not valid YAML: {message}", remedy) from None
    except yaml.reader.ReaderError as error:
        line = len(_LINE_END.findall(text, 0, error.position)) + 1
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
        raise refuse(line, message, "remove it, or write it as an escape inside double quotes") from None
    except RecursionError:
        raise refuse(None, "nests too deeply", "check the file for a run of opening brackets") from None
    except (ValueError, OverflowError) as error:
        remedy = "check the escapes inside double quotes, and the %YAML line if there is one"
        raise refuse(None, f"not valid YAML: {error}", remedy) from None


def line_of(node: yaml.Node) -> int:
    """The line, counted from 1, on which the node starts."""
    line: int = node.start_mark.line
    return line + 1


class Mappings:
    """Reads mapping nodes of one file, merges expanded; what is wrong with them goes to `problems`.

    Each node is judged once, however many aliases lead to it.
    """

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems
        self._done: dict[int, dict[str, Entry]] = {}
        self._open: list[int] = []

    def entries(self, node: yaml.MappingNode, field: str) -> dict[str, Entry]:
        """The entries of `node` by key, in file order, its own before the merged ones.

        Of a key that is given twice the first entry is kept. `field` is the path of the mapping.
        """
        if id(node) not in self._done:
            self._open.append(id(node))
            self._done[id(node)] = self._entries(node, field)
            self._open.pop()
        return self._done[id(node)]

    def _entries(self, node: yaml.MappingNode, field: str) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merges: list[tuple[int, yaml.Node]] = []
        for key, value in node.value:
            line = line_of(key)
            if key.tag == _MERGE_TAG:
                merges.append((line, value))
            elif not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                shown = quoted(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                self._add(line, field, f"the key {shown} is not text", "put the key in quotes")
            elif key.value in own:
                message = f"is given twice, first on line {own[key.value].line}"
                self._add(line, joined(field, key.value), message, "keep one of the two")
            else:
                own[key.value] = Entry(key.value, value, line)
        for line, _ in merges[1:]:
            self._add(line, field, "merges (`<<`) more than once", "give one `<<` a list: `<<: [*a, *b]`")
        return own | self._merged(merges, field, own)

    def _merged(
        self, merges: list[tuple[int, yaml.Node]], field: str, own: Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """What the merges add to `own`; an earlier source wins over a later one."""
        merged: dict[str, Entry] = {}
        for line, value in merges:
            for source in self._sources(value, field):
                if id(source) in self._open:
                    self._add(line, field, "merges itself", "merge another mapping")
                elif len(self._open) > _MERGE_DEPTH:
                    self._add(line, field, "merges (`<<`) too deeply", "write the keys out")
                else:
                    for name, entry in self.entries(source, field).items():
                        if name not in own:
                            merged.setdefault(name, entry)
        return merged

    def _sources(self, value: yaml.Node, field: str) -> Iterator[yaml.MappingNode]:
        nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for node in {id(node): node for node in nodes}.values():
            if isinstance(node, yaml.MappingNode):
                yield node
            else:
                self._add(
                    line_of(node),
                    field,
                    "`<<` merges something that is no mapping",
                    "merge an alias of a mapping",
                )

    def _add(self, line: int, field: str, message: str, remedy: str) -> None:
        self._problems.append(Problem(self._file, line, field, message, remedy))


def joined(field: str, key: str) -> str:
    """The dotted path of `key` inside `field`."""
    name = key if key.isprintable() and len(key) <= 64 else quoted(key)
    return f"{field}.{name}" if field else name


def kind_of(node: yaml.Node) -> str:
    """What the node is, in words: `text`, `a whole number`, `a list`, …"""
    tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
    words = {
        "str": "text",
        "int": "a whole number",
        "float": "a number",
        "bool": "a truth value",
        "null": "empty",
        "timestamp": "a date",
        "map": "a mapping",
        "seq": "a list",
    }
    return words.get(tag, f"tagged {quoted(str(node.tag))}")


def has_known_tag(node: yaml.Node) -> bool:
    """Whether the node's tag is one of YAML's own plain ones, given or implied."""
    return node.tag in _CORE_TAGS
