"""What a word is, for search: the same in each database, which finds what is said here and nothing else. Pure.

Words are folded (case, compatibility forms) and kept once each, separated by blanks. Scripts that put no blanks
between words are taken sign by sign.
"""

from __future__ import annotations

import re
import unicodedata

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


def sqlite_query(text: str) -> str | None:
    """For MATCH of FTS5: rows with all words of the text, long ones also as beginnings. None if it has no word."""
    return " ".join(f'"{word}"{"*" if is_prefix else ""}' for word, is_prefix in _asked(text)) or None


def postgres_query(text: str) -> str | None:
    """The same as a tsquery."""
    return " & ".join(f"'{word}'{':*' if is_prefix else ''}" for word, is_prefix in _asked(text)) or None


def _asked(text: str) -> list[tuple[str, bool]]:
    found = list(dict.fromkeys(_found(text)))[:MOST_ASKED]
    return [(word, len(word) >= _SHORTEST_PREFIX) for word in found]


def _found(text: str) -> list[str]:
    text = text[:SEARCHED]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return [word[:_LONGEST] for word in _WORD.findall(text.casefold())]
