"""What a word is, for search: the same in each database, which finds what is said here and nothing else. Pure.

Words are folded (case, compatibility forms) and kept once each, separated by blanks. Scripts that put no blanks
between words are taken sign by sign.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SEARCHED = 20_000
"""Characters of a message, from its beginning, whose words can be found. Longer ones are results of tools, or files."""

MOST_ASKED = 8
"""Words of a query that count."""

_LONGEST = 64
_SHORTEST_PREFIX = 3
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


def words(text: str) -> str | None:
    """The distinct words of a text, as they are kept; None if it has none."""
    return " ".join(dict.fromkeys(_found(text))) or None


def asked_words(text: str) -> list[tuple[str, bool]]:
    """The words of a query that count, each with whether words that begin with it will do: long ones."""
    found = list(dict.fromkeys(_found(text)))[:MOST_ASKED]
    return [(word, len(word) >= _SHORTEST_PREFIX) for word in found]


def has_all(kept: str | None, asked: Iterable[tuple[str, bool]]) -> bool:
    """Whether a text of which `words` has kept that has all words of a query."""
    return all(piece in f" {kept or ''} " for piece in map(piece_of, asked))


def piece_of(asked: tuple[str, bool]) -> str:
    """What stands in kept words, with a blank before the first and behind the last, where a word of a query is."""
    word, is_prefix = asked
    return f" {word}" if is_prefix else f" {word} "


def sqlite_query(asked: Iterable[tuple[str, bool]]) -> str:
    """For MATCH of FTS5: rows with all words of a query, of which there is one at least."""
    return " ".join(f'"{word}"{"*" if is_prefix else ""}' for word, is_prefix in asked)


def postgres_query(asked: Iterable[tuple[str, bool]]) -> str:
    """The same as a tsquery."""
    return " & ".join(f"'{word}'{':*' if is_prefix else ''}" for word, is_prefix in asked)


def _found(text: str) -> list[str]:
    text = text[:SEARCHED]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return [word[:_LONGEST] for word in _WORD.findall(text.casefold())]
