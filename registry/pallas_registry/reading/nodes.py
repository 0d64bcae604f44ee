"""YAML text as nodes that remember their lines, with everything refused that YAML lets slip silently.

Knows YAML, and nothing of what the keys mean. Duplicate keys, keys that are no text and unknown tags become problems,
and so does what is too large, too deep or endless once its aliases are followed; aliases and merge keys (`<<`) work as
in YAML 1.1.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_registry.reading.files import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAXIMUM_DEPTH = 64
"""Levels of lists and mappings within each other, aliases followed. A person's file has ten."""

MAXIMUM_VALUES = 50_000
"""Keys and values of a file, aliases followed."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where it is there: ten times as fast, and PyYAML's own takes seconds for some texts of a megabyte."""

_MERGE_TAG = "tag:yaml.org,2002:merge"
_INDENTS = re.compile(r"^[ ?:-]*", re.MULTILINE)
_SEVERAL = re.compile(r"^(---|\.\.\.)", re.MULTILINE)
_NULL_TAG = "tag:yaml.org,2002:null"
_NOT_ALLOWED = yaml.reader.Reader.NON_PRINTABLE
_INDENTATION = "check the indentation: entries of one mapping or list start in the same column"
_OPEN = "close the quote or the bracket that is open there, and put commas between its entries"
_REMEDIES = (
    ("'\\t'", "indent with spaces, not with tabs"),
    ("a tab character", "indent with spaces, not with tabs"),
    (
        "mapping values are not allowed",
        "check the indentation, and put a value that contains a colon in quotes",
    ),
    ("cannot start any token", "put the value in quotes"),
    ("undefined alias", "define the anchor (&name) further up, or put the value in quotes"),
    ("duplicate anchor", "give each anchor a name of its own"),
    ("another document", "keep one document in the file: remove what follows the second `---`"),
    ("end of stream", _OPEN),
    ("<stream end>", _OPEN),
    ("expected ',' or", _OPEN),
    ("expected node content", _OPEN),
    ("block end", _INDENTATION),
    ("expected '-' indicator", _INDENTATION),
    ("expected key", _INDENTATION),
    ("could not find expected ':'", "write the line as `key: value`"),
    ("escape", "check the escapes inside double quotes"),
)
"""By a part of what libyaml says, or PyYAML's own parser."""


class Entry(NamedTuple):
    """One `key: value` of a mapping; `line` is the key's, counted from 1."""

    key: str
    value: yaml.Node
    line: int


def compose(data: bytes, file: str) -> yaml.Node | None:
    """The root node of the one YAML document in `data`, or None if there is nothing in it.

    Its size is bounded, also with all aliases followed.

    Raises:
        ConfigurationError: not UTF-8, too large, nested too deeply, endless, or not YAML; one problem, as nothing
            after it can be trusted.
    """
    text = _printable(text_of(data, file), file)
    with _refused(text, file):
        for _ in bounded_events(text):
            pass  # before a parser that recurses sees it
        root = yaml.compose(text, Loader=LOADER)
        if root is not None:
            _measure(root)
    return root


def compose_all(text: str, file: str, documents: int) -> Iterator[yaml.Node]:
    """The root nodes of the YAML documents in the text, one after the other; of empty ones there is none.

    Each of them is bounded as `compose` bounds it, and there are at most so many `documents`. Whether the text is YAML
    to its end is known before the first one comes.

    Raises:
        ConfigurationError: as `compose` does.
    """
    text = _printable(text, file)
    with _refused(text, file):
        has_aliases = not _is_little(text) and _has_aliases(text, documents)
        for root in yaml.compose_all(text, Loader=LOADER):
            if has_aliases:
                _measure(root)
            if root.tag != _NULL_TAG:
                yield root


def _is_little(text: str) -> bool:
    """Whether so little is in the text, without an alias, that nobody needs to count: most resources are so.

    A character opens at most two levels, a bracket those of a list and of a pair in it, and a column that a block
    begins at those of a mapping and of a list at the same column.
    """
    if len(text) > MAXIMUM_VALUES or ("*" in text and "&" in text) or _SEVERAL.search(text):
        return False
    column = max(map(len, _INDENTS.findall(text)), default=0)
    return 2 * (text.count("[") + text.count("{") + column + 2) <= MAXIMUM_DEPTH


def _has_aliases(text: str, documents: int) -> bool:
    """Whether something has to be measured besides, after all of the text has been found to be bounded."""
    count, found = 0, False
    for event in bounded_events(text):
        found = found or isinstance(event, yaml.AliasEvent)
        count += isinstance(event, yaml.DocumentStartEvent)
        if count > documents:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise TooMuchError(line, f"holds more than {documents} documents", "split the file")
    return found


def _printable(text: str, file: str) -> str:
    if (strange := _NOT_ALLOWED.search(text)) is not None:
        line = text.count("\n", 0, strange.start()) + 1
        message = f"the character U+{ord(strange[0]):04X} is not allowed in YAML"
        remedy = "remove it, or write it as an escape inside double quotes"
        raise ConfigurationError([Problem(file, line, "", message, remedy)])
    return text


@contextmanager
def _refused(text: str, file: str) -> Iterator[None]:
    """Make one problem of what a parser says of the text."""

    def refuse(line: int | None, message: str, remedy: str) -> ConfigurationError:
        return ConfigurationError([Problem(file, line, "", message, remedy)])

    try:
        yield
    except TooMuchError as error:
        raise refuse(error.line, error.message, error.remedy) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, text.count("\n")) + 1 if mark else 1  # libyaml's end may be a line too far
        message = " ".join(part for part in (error.context, error.problem) if part)
        if "cannot start any token" in message and mark and _at(text, mark.line, mark.column) == "\t":
            message = "while scanning for the next token found a tab character"
        remedy = next((remedy for part, remedy in _REMEDIES if part in message), "correct the YAML there")
        raise refuse(line, f"not valid YAML: {message}", remedy) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        remedy = "check the escapes inside double quotes, and the %YAML line if there is one"
        raise refuse(None, f"not valid YAML: {error}", remedy) from None


def _at(text: str, line: int, column: int) -> str:
    """The character there, both counted from 0; nothing beyond the end."""
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""


class TooMuchError(yaml.YAMLError):
    """More than a person writes: deeper, longer, or endless."""

    def __init__(self, line: int, message: str, remedy: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.remedy = remedy


def bounded_events(text: str | bytes) -> Iterator[yaml.Event]:
    """What a YAML parser meets in the text.

    Raises:
        TooMuchError: the text nests too deeply, or holds too much; at once, where a parser would take long.
        yaml.YAMLError: it is not YAML.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            values = 0
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
            _refuse_too_much(event.start_mark.line + 1 if event.start_mark else 1, depth, values)
        yield event


def _measure(root: yaml.Node) -> None:
    """Refuse what nests too deeply, holds too much or holds itself where aliases are followed to their ends."""
    sizes: dict[int, tuple[int, int]] = {}
    """By node: the values in it, and the levels below it. -1 while it is being looked at."""
    waiting = [(root, line_of(root))]
    while waiting:
        node, line = waiting[-1]
        if sizes.get(id(node), (-1, -1))[0] >= 0:  # by another alias
            waiting.pop()
            continue
        children = list(_children(node))
        if id(node) not in sizes:
            sizes[id(node)] = (-1, -1)
            for child, line_there, verb_there in children:
                if id(child) not in sizes:
                    waiting.append((child, line_there))
                elif sizes[id(child)][0] < 0:
                    raise TooMuchError(
                        line_there, f"{verb_there} itself", "use another mapping or list there"
                    )
            continue
        waiting.pop()
        inner = [sizes[id(child)] for child, _, _ in children]
        levels = 1 + max((levels for _, levels in inner), default=0) if children else 0
        values = 1 + sum(values for values, _ in inner)
        _refuse_too_much(line, levels, values)
        sizes[id(node)] = (values, levels)


def _children(node: yaml.Node) -> Iterator[tuple[yaml.Node, int, str]]:
    """The nodes in a node, each with the line and the verb to say where and how they got there."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key, line_of(key), "holds"
            yield value, line_of(key), "merges" if key.tag == _MERGE_TAG else "holds"
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield item, line_of(node), "holds"


def _refuse_too_much(line: int, depth: int, values: int) -> None:
    if depth > MAXIMUM_DEPTH:
        remedy = "check the line for a run of opening brackets, and the file for aliases of aliases"
        raise TooMuchError(line, f"nests too deeply: more than {MAXIMUM_DEPTH} levels", remedy)
    if values > MAXIMUM_VALUES:
        remedy = "check that it is the right file, and the file for aliases of aliases"
        raise TooMuchError(line, f"holds more than {MAXIMUM_VALUES} values", remedy)


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

    def entries(self, node: yaml.MappingNode, field: str) -> dict[str, Entry]:
        """The entries of `node` by key, in file order, its own before the merged ones.

        Of a key that is given twice the first entry is kept. `field` is the path of the mapping.
        """
        if id(node) not in self._done:
            self._done[id(node)] = self._entries(node, field)
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
        for _, value in merges:
            for source in self._sources(value, field):
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


def plain(root: yaml.Node) -> object:
    """What a composed node says, as dictionaries, lists and the texts of its scalars; aliases lead to one object."""
    made: dict[int, object] = {}

    def value(node: yaml.Node) -> object:
        if id(node) not in made:
            if isinstance(node, yaml.MappingNode):
                made[id(node)] = {key_name(key): value(item) for key, item in node.value}
            elif isinstance(node, yaml.SequenceNode):
                made[id(node)] = [value(item) for item in node.value]
            else:
                made[id(node)] = str(node.value)
        return made[id(node)]

    return value(root)


def key_name(key: yaml.Node) -> str:
    """What an entry is called by its key. A list or a mapping as a key is `?`: its text may be long."""
    return key.value if isinstance(key, yaml.ScalarNode) else "?"


def joined(field: str, key: str) -> str:
    """The dotted path of `key` inside `field`."""
    name = key if key.isprintable() and len(key) <= 64 else quoted(key)
    return f"{field}.{name}" if field else name


def kind_of(node: yaml.Node) -> str:
    """What the node is, in words: `text`, `a whole number`, `a list`, …"""
    tag = str(node.tag)
    return _KINDS.get(tag) or f"tagged {quoted(tag)}"


_KINDS = {
    f"tag:yaml.org,2002:{tag}": words
    for tag, words in {
        "str": "text",
        "int": "a whole number",
        "float": "a number",
        "bool": "a truth value",
        "null": "empty",
        "timestamp": "a date",
        "map": "a mapping",
        "seq": "a list",
    }.items()
}
