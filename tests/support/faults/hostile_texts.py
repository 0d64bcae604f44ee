"""Texts that make a regular expression look at as much as it can: made from the expression itself.

An expression is read as the parser of `re` reads it. What leads up to each place in it is a begun match; begun matches
one after the other, and one begun match followed by what its place may go on over, are what backtracking engines choke
on.
"""

from __future__ import annotations

import time
from re import _constants as op  # type: ignore[attr-defined]  # no public module has it
from re import _parser as parser  # type: ignore[attr-defined]  # no public module has it
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    type Places = Iterator[tuple[str, str]]

SEPARATORS = ("", "-", " ", ".", '"')
"""What may stand between two begun matches, so that the second one counts as the beginning of another."""

_ALPHABET = "a0-_ .:='\"\\/@\n\t(xy"


def hostile_texts(pattern: str, length: int) -> Iterator[tuple[str, str]]:
    """Named texts of about `length` characters."""
    pieces: dict[str, None] = {}
    for before, over in dict.fromkeys(_begun(parser.parse(pattern))):
        pieces |= dict.fromkeys(before + separator for separator in SEPARATORS)
        if over:
            long = over * (length // 64 // len(over))
            yield f"{before[:60]!r} and {over!r} for ever", before + long * 64
            yield f"{before[:60]!r} and much {over!r}, often", (before + long + "\x00") * 64
            pieces |= dict.fromkeys(separator + before + over * 12 for separator in SEPARATORS)
    for piece in filter(None, pieces):
        yield f"{piece[:60]!r} again and again", piece * (length // len(piece))


def _begun(parsed: Any) -> Places:
    """For each place in a parsed expression: a text that leads up to it, and what may be repeated there."""
    texts = [""]
    for code, argument in parsed:
        for text in texts:
            yield text, ""
            for inner, over in _inside(code, argument):
                yield text + inner, over
        texts = [text + sample for text in texts for sample in _samples(code, argument)][:2]
    for text in texts:
        yield text, ""


def _inside(code: Any, argument: Any) -> Places:
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        _, most, body = argument
        once = _sample(body)
        if most > 8 and once:
            yield once, once
        yield from _begun(body)
    elif code is op.SUBPATTERN:
        yield from _begun(argument[-1])
    elif code is op.BRANCH:
        for branch in argument[1]:
            yield from _begun(branch)
    elif code is op.ATOMIC_GROUP:
        yield from _begun(argument)
    elif code in (op.ASSERT, op.ASSERT_NOT) and argument[0] > 0:
        yield from _begun(argument[1])


def _samples(code: Any, argument: Any) -> list[str]:
    """Texts that one element matches: the shortest, one more, and one of each branch."""
    if code is op.LITERAL:
        return [chr(argument)]
    if code is op.NOT_LITERAL:
        return [next(character for character in _ALPHABET if ord(character) != argument)]
    if code is op.IN:
        return [_member(argument)]
    if code is op.ANY:
        return ["a"]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, body = argument
        once = _sample(body)
        return [once * least, once * min(least + 1, most)]
    if code is op.SUBPATTERN:
        return [_sample(argument[-1])]
    if code is op.ATOMIC_GROUP:
        return [_sample(argument)]
    if code is op.BRANCH:
        return [_sample(branch) for branch in argument[1]]
    return [""]  # what takes no characters, and references to groups


def _sample(parsed: Any) -> str:
    return "".join(_samples(code, argument)[0] for code, argument in parsed)


def _member(items: Any) -> str:
    """A character of a set."""
    negated = items[0][0] is op.NEGATE
    return next(character for character in _ALPHABET + "sbrm" if _is_in(character, items) != negated)


def _is_in(character: str, items: Any) -> bool:
    for code, argument in items:
        if code is op.LITERAL and ord(character) == argument:
            return True
        if code is op.RANGE and argument[0] <= ord(character) <= argument[1]:
            return True
        if code is op.CATEGORY:
            word = character.isalnum() or character == "_"
            here = {
                op.CATEGORY_SPACE: character.isspace(),
                op.CATEGORY_NOT_SPACE: not character.isspace(),
                op.CATEGORY_WORD: word,
                op.CATEGORY_NOT_WORD: not word,
            }[argument]
            if here:
                return True
    return False


def cost(work: Callable[[str], object], text: str) -> float:
    """Seconds of this thread's CPU time that the work on a text takes, at best."""
    spent = []
    for _ in range(3):
        began = time.thread_time()
        work(text)
        spent.append(time.thread_time() - began)
    return min(spent)


def worst_texts(
    pattern: str, work: Callable[[str], object], count: int
) -> list[tuple[str, Callable[[int], str]]]:
    """Those of the texts that cost most when they are short: what they are, and how to make one of a length."""
    tried = 4096
    costs = [(cost(work, text), what) for what, text in hostile_texts(pattern, tried)]
    worst = [what for _, what in sorted(costs, reverse=True)[:count]]

    def longer(what: str) -> Callable[[int], str]:
        return lambda length: next(text for name, text in hostile_texts(pattern, length) if name == what)

    return [(what, longer(what)) for what in worst]
