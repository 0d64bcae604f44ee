"""The keys of one YAML mapping read as typed values; whatever is wrong is noted and reading goes on.

Knows types, lines and wording; not which keys exist, nor what they mean.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from pallas_common.problems import MOST_PROBLEMS, Problem, did_you_mean, quoted, shortened
from pallas_common.sizes import describe_size, is_ambiguous_size, parse_size
from pallas_common.times import parse_duration
from pallas_registry.reading.nodes import Entry, Mappings, joined, kind_of, line_of
from pallas_registry.reading.values import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pallas_registry.reading.rules import Complaint

type Rule = Callable[[str], Complaint | None]

_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,999})")
_DECIMAL = re.compile(r"[+-]?((0|[1-9][0-9]{0,999})(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
LARGEST_NUMBER = 2**53
"""What every reader of JSON keeps exact (RFC 8259, section 6), and nothing that is counted comes near it."""

LONGEST_TIME = 1e9
"""Seconds, about 32 years: timers of the operating system end not far above."""

_A_SIZE = "an amount as in `512MiB`, `2GB`, or plain bytes"


class Item(NamedTuple):
    """One of a list; `key` is its place: `servers[0]`."""

    key: str
    node: yaml.Node
    line: int

    @property
    def text(self) -> str | None:
        """What it says, if it is a text."""
        return str(self.node.value) if kind_of(self.node) == "text" else None


class Fields:
    """One mapping of a file. Readers return None where the key is absent or its value was refused."""

    def __init__(
        self,
        node: yaml.Node,
        *,
        file: str,
        field: str,
        line: int,
        problems: list[Problem],
        mappings: Mappings | None = None,
    ) -> None:
        """`field` is the mapping's own path, `line` where it is named; problems are added to `problems`."""
        self._file = file
        self._field = field
        self._line = line
        self._problems = problems
        self._mappings = mappings or Mappings(file, problems)
        self._entries: dict[str, Entry] = {}
        self.is_mapping = isinstance(node, yaml.MappingNode) and kind_of(node) == "a mapping"
        if isinstance(node, yaml.MappingNode) and self.is_mapping:
            self._entries = self._mappings.entries(node, field)
        else:
            self.add(line, "", f"is {kind_of(node)}, not a mapping", "write `key: value` lines below it")

    def __iter__(self) -> Iterator[str]:
        """The keys as they stand in the file."""
        return iter(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def add(self, line: int | None, key: str, message: str, remedy: str) -> None:
        """Note a problem with `key` of this mapping, or with the mapping itself where `key` is empty."""
        field = joined(self._field, key) if key else self._field
        self._problems.append(Problem(self._file, line, field, message, remedy))

    def line(self, key: str) -> int:
        """The line of the key's value, or of the mapping's own name where the key is absent."""
        entry = self._entries.get(key)
        return line_of(entry.value) if entry else self._line

    @property
    def own_line(self) -> int:
        """The line on which the mapping is named."""
        return self._line

    def key_lines(self, below: str | None = None) -> dict[str, int]:
        """Key → its line, of all keys that stand in the mapping, or in the one of the key `below`."""
        entries = self._entries
        if below is not None:
            node = entries[below].value if below in entries else None
            entries = self._mappings.entries(node, below) if isinstance(node, yaml.MappingNode) else {}
        return {key: entry.line for key, entry in entries.items()}

    def refuse(self, key: str, message: str, remedy: str) -> None:
        """Note a problem with the value of `key`, on its line."""
        self.add(self.line(key), key, message, remedy)

    def near(self, word: str, known: Collection[str]) -> str | None:
        """What was probably meant; not searched any more once there are more problems than are shown."""
        return did_you_mean(word, known) if len(self._problems) < MOST_PROBLEMS else None

    def only(self, known: Sequence[str]) -> None:
        """Refuse every key that is not in `known`."""
        for entry in self._entries.values():
            if entry.key not in known:
                near = self.near(entry.key, known)
                remedy = f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}"
                self.add(entry.line, entry.key, "is not a known key", remedy)

    def require(self, key: str, remedy: str) -> None:
        """Refuse the mapping if it lacks `key`."""
        if self.is_mapping and key not in self:
            self.add(self._line, key, "is missing", remedy)

    def is_empty(self, key: str) -> bool:
        """Whether the key stands there without a value (YAML's null)."""
        return key in self and kind_of(self._entries[key].value) == "empty"

    def is_list(self, key: str) -> bool:
        """Whether `key` has a list."""
        return isinstance(self._entries[key].value, yaml.SequenceNode)

    def is_truth(self, key: str) -> bool:
        """Whether the key stands there with a truth value."""
        return key in self and kind_of(self._entries[key].value) == "a truth value"

    def text(self, key: str, rule: Rule | None = None) -> str | None:
        """The text of `key`, as written, if it passes `rule`."""
        if key not in self:
            return None
        node = self._entries[key].value
        if not isinstance(node, yaml.ScalarNode) or kind_of(node) != "text":
            remedy = (
                f'put it in quotes: "{shortened(node.value)}"'
                if _quotable(node)
                else "write one value, as text"
            )
            self._wrong_kind(key, "text", remedy)
            return None
        value = str(node.value)
        complaint = rule(value) if rule else None
        if complaint:
            self.refuse(key, *complaint)
            return None
        return value

    def line_of_text(self, key: str, rule: Rule) -> str | None:
        """Like `text`, without the white space around it that YAML's block texts bring along."""
        value = self.text(key, lambda text: rule(text.strip()))
        return None if value is None else value.strip()

    def whole_number(self, key: str, minimum: int, maximum: int | None = None) -> int | None:
        """The whole number of `key`, within the bounds."""
        if key not in self:
            return None
        wanted = f"a whole number of at least {minimum}"
        if maximum is not None:
            wanted = f"a whole number from {minimum} to {maximum}"
        text = self._number(key, "a whole number", wanted, _WHOLE)
        if text is None:
            return None
        value = int(text)
        if not minimum <= value <= (LARGEST_NUMBER if maximum is None else maximum):
            too_large = value > minimum and maximum is None
            bounds = f"a whole number from {minimum} to {LARGEST_NUMBER}" if too_large else wanted
            self.refuse(key, f"{shortened(text)} is out of range", f"use {bounds}")
            return None
        return value

    def seconds(self, key: str, minimum: float = 0.0) -> float | None:
        """The positive, finite number of seconds of `key`, not below `minimum`."""
        if key not in self:
            return None
        text = self._number(key, "a number", "a number of seconds, as in 30 or 2.5", _DECIMAL)
        if text is None:
            return None
        value = float(text)
        if value <= 0 or not math.isfinite(value):
            self.refuse(key, f"{quoted(text)} is not a time", "use a number of seconds above 0")
            return None
        if value < minimum:
            self.refuse(key, f"{quoted(text)} is out of range", f"use at least {minimum:g} seconds")
            return None
        if value > LONGEST_TIME:
            self.refuse(key, f"{quoted(text)} is out of range", f"use at most {LONGEST_TIME:.0f} seconds")
            return None
        return value

    def duration(self, key: str, minimum: float, *, never: str) -> str | None:
        """The duration of `key` as it is written, with a unit, not below `minimum` seconds; or the word `never`."""
        if key not in self:
            return None
        node = self._entries[key].value
        kind = kind_of(node)
        wanted = f"a duration as in `90d` or `12h`, or `{never}`"
        if not isinstance(node, yaml.ScalarNode) or kind not in {"a whole number", "a number", "text"}:
            self._wrong_kind(key, "a duration", f"write {wanted}")
            return None
        text = str(node.value)
        if text == never:
            return text
        value = parse_duration(text) if text[-1:].isalpha() else None
        if value is None:
            self.refuse(key, f"{quoted(text)} is not a duration", f"write {wanted}")
        elif not minimum <= value <= LONGEST_TIME:
            bounds = f"use at least {minimum:g} s" if value < minimum else f"use at most {LONGEST_TIME:.0f} s"
            self.refuse(key, f"{quoted(text)} is out of range", f"{bounds}, or `{never}`")
        else:
            return text
        return None

    def size(self, key: str, minimum: int) -> int | None:
        """The amount of memory of `key` in bytes, written as `parse_size` reads it, not below `minimum`."""
        if key not in self:
            return None
        node = self._entries[key].value
        kind = kind_of(node)
        if not isinstance(node, yaml.ScalarNode) or kind not in {"a whole number", "a number", "text"}:
            self._wrong_kind(key, "an amount of memory", f"use {_A_SIZE}")
            return None
        text = str(node.value)
        value = parse_size(text)
        if value is None:
            clear = f"write `{text}iB` or `{text}B`" if is_ambiguous_size(text) else f"use {_A_SIZE}"
            self.refuse(key, f"{quoted(text)} is not an amount of memory", clear)
            return None
        if value < minimum:
            remedy = f"use at least {describe_size(minimum)}"
            self.refuse(key, f"{quoted(text)} is out of range", remedy)
            return None
        if value > LARGEST_NUMBER:
            self.refuse(key, f"{quoted(text)} is out of range", "use what a machine has")
            return None
        return value

    def says_none(self, key: str) -> bool:
        """Whether the key stands there with the word `none`, which takes back what is said elsewhere."""
        if key not in self:
            return False
        node = self._entries[key].value
        return isinstance(node, yaml.ScalarNode) and kind_of(node) == "text" and node.value == "none"

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        """The text of `key`, one of `choices`."""
        value = self.text(key)
        if value is None or value in choices:
            return value
        near = self.near(value, choices)
        remedy = f"did you mean `{near}`?" if near else f"use one of {', '.join(choices)}"
        self.refuse(key, f"{quoted(value)} is not a known value", remedy)
        return None

    def truth(self, key: str) -> bool | None:
        """The truth value of `key`, in YAML 1.1's spellings."""
        if key not in self:
            return None
        node = self._entries[key].value
        if not isinstance(node, yaml.ScalarNode) or kind_of(node) != "a truth value":
            self._wrong_kind(key, "a truth value", "write `true` or `false`")
            return None
        return str(node.value).lower() in {"true", "yes", "on"}

    def texts(self, key: str) -> list[tuple[str, int]]:
        """The texts in the list of `key`, each with its line; items that are no text are refused."""
        found = []
        for index, item in enumerate(self._entries_of(key)):
            if isinstance(item, yaml.ScalarNode) and kind_of(item) == "text":
                found.append((str(item.value), line_of(item)))
            else:
                place = f"{key}[{index}]"
                self.add(
                    line_of(item),
                    place,
                    f"is {kind_of(item)}, not text",
                    "write a text, in quotes if need be",
                )
        return found

    def section(self, key: str) -> Fields | None:
        """The mapping of `key`, or None if it is absent."""
        if key not in self:
            return None
        entry = self._entries[key]
        return Fields(
            entry.value,
            file=self._file,
            field=joined(self._field, key),
            line=entry.line,
            problems=self._problems,
            mappings=self._mappings,
        )

    def node(self, key: str) -> yaml.Node | None:
        """The value of `key` as it was parsed."""
        return self._entries[key].value if key in self else None

    def value(self, key: str) -> Any:
        """The value of `key` as JSON has it; what JSON does not have is refused. None where the key is absent."""
        if key not in self:
            return None
        field = joined(self._field, key)
        return value_of(self._entries[key].value, self._mappings, self._problems.append, self._file, field)

    def items(self, key: str, most: int) -> list[Item]:
        """What is in the list of `key`; a longer one than `most` is refused."""
        entries = self._entries_of(key)
        if len(entries) > most:
            self.refuse(key, f"has {len(entries)} entries", f"use at most {most}")
            return []
        return [Item(f"{key}[{index}]", item, line_of(item)) for index, item in enumerate(entries)]

    def of_item(self, item: Item) -> Fields:
        """The mapping that an item of a list is."""
        return Fields(
            item.node,
            file=self._file,
            field=joined(self._field, item.key),
            line=item.line,
            problems=self._problems,
            mappings=self._mappings,
        )

    def scalar(self, key: str) -> str | None:
        """The value of `key` as it is written in the file: a text, a number or a truth value."""
        node = self._entries[key].value
        if (
            isinstance(node, yaml.ScalarNode)
            and kind_of(node) != "empty"
            and not kind_of(node).startswith("tagged")
        ):
            return str(node.value)
        self._wrong_kind(key, "a text, a number or a truth value", 'write a value, `""` for an empty one')
        return None

    def _number(self, key: str, kind: str, wanted: str, form: re.Pattern[str]) -> str | None:
        node = self._entries[key].value
        if isinstance(node, yaml.ScalarNode):
            text = str(node.value)
            kind_found = kind_of(node)
            # YAML 1.1 takes a bare 1e3 for a text, and 010 or 1:30 for numbers in bases of 8 and 60.
            bare = not node.style and kind_found in {"a whole number", "a number", "text"}
            if bare and form.fullmatch(text):
                return text
            if kind_found == "a whole number":
                self.refuse(key, f"{quoted(text)} is not written in plain decimal digits", f"use {wanted}")
                return None
            if kind_found in {"a number", "text"}:
                quotes = ", without quotes" if form.fullmatch(text) else ""
                self.refuse(key, f"{quoted(text)} is not {kind}", f"use {wanted}{quotes}")
                return None
        self._wrong_kind(key, kind, f"use {wanted}")
        return None

    def _entries_of(self, key: str) -> list[yaml.Node]:
        """What is in the list of `key`; nothing where there is none, and what is no list is refused."""
        if key not in self:
            return []
        node = self._entries[key].value
        if not isinstance(node, yaml.SequenceNode) or kind_of(node) != "a list":
            self._wrong_kind(key, "a list", "write a list, as in `[one, two]`")
            return []
        return list(node.value)

    def _wrong_kind(self, key: str, wanted: str, remedy: str) -> None:
        kind = kind_of(self._entries[key].value)
        if kind == "empty":
            self.refuse(key, "is empty", "give it a value, or remove the key")
        else:
            self.refuse(key, f"is {kind}, not {wanted}", remedy)


def _quotable(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and kind_of(node) not in {"empty", "text"} and bool(node.value)
