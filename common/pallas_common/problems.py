"""What is wrong with a user's configuration: where, what, and the way out, one line each.

Knows no file format and reads nothing.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.secrets.patterns import KEY_SHAPES, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


MOST_PROBLEMS = 100
"""Of one run; what follows is counted. Nobody reads more, and a broken file can have thousands."""

LONGEST_WORD = 64
MOST_WORDS = 500
"""Limits of what is searched for the word that was meant: the search is slow."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a user has to mend.

    `file` is the name that people know it by (a path, or `environment`), `line` counts from 1 and is None
    where there is no line, `field` is the dotted path of the key, such as `agents.jarvis.port`, or empty.
    `message` says what is wrong and `remedy` what to do; neither starts with a capital or ends with a full
    stop.
    """

    file: str
    line: int | None
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """`agents.yaml:12: agents.jarvis.port: 8200 is also the registry's port; give each agent …`."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        said = ": ".join(part for part in (self.field, self.message) if part)
        if self.remedy:
            said = f"{said}; {self.remedy}"
        said = redact(said, KEY_SHAPES)  # who quotes a file may quote a key
        text = ": ".join(part for part in (place, said) if part)
        return "".join(character if character.isprintable() else _escaped(character) for character in text)


class ConfigurationError(Exception):
    """A configuration that cannot be used.

    `found` holds all that was found in one run, in file order, and `problems` what is shown: of more than
    `MOST_PROBLEMS`, the last one says how many were left out.
    """

    found: tuple[Problem, ...]
    problems: tuple[Problem, ...]

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.found = self.problems = tuple(problems)
        if left_out := self.found[MOST_PROBLEMS:]:
            more = Problem(
                left_out[0].file, None, "", counted(len(left_out), "more problem"), "mend those above first"
            )
            self.problems = (*self.found[:MOST_PROBLEMS], more)
        super().__init__(*self.problems)

    def __str__(self) -> str:
        """The problems, one line each."""
        return "\n".join(map(str, self.problems))


def collect[T](read: Callable[[], T], problems: list[Problem]) -> T | None:
    """What `read` gives, or None and its problems noted, so that several files can be read in one run."""
    try:
        return read()
    except ConfigurationError as error:
        problems += error.found
        return None


def did_you_mean(word: str, known: Collection[str]) -> str | None:
    """The known word that `word` is most likely a slip of, or None if nothing is near."""
    if len(word) > LONGEST_WORD or len(known) > MOST_WORDS:
        return None
    matches = difflib.get_close_matches(word.lower(), sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def no_such_agent(names: Iterable[str], known: Iterable[str]) -> str:
    """The one wording for agents that are not deployed, and the way out: `there is no agent 'x'; did you mean 'y'?`.

    Args:
        names: what was asked for and is not there, one name at least.
        known: the agents that there are.
    """
    wanted, agents = list(names), list(known)
    said = f"there {'is no agent' if len(wanted) == 1 else 'are no agents'} {', '.join(map(quoted, wanted))}"
    if len(wanted) == 1 and (near := did_you_mean(wanted[0], agents)):
        return f"{said}; did you mean {near!r}?"
    return f"{said}; the agents are: {', '.join(agents) or 'none'}"


def counted(number: int, noun: str) -> str:
    """A number of things, `1 agent` or `2 agents`; for nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_KINDS = {
    bool: "a boolean",
    int: "a number",
    float: "a number with a fraction",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """What JSON calls the value's type, with its article, for a complaint."""
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


def quoted(text: str, limit: int = 60) -> str:
    """The text in quotes, on one line and shortened to about `limit` characters, for a message."""
    return repr(shortened(text, limit))


def shortened(text: str, limit: int = 60) -> str:
    """The text, or its beginning and an ellipsis, in at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
