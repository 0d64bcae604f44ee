"""Hostile material from a random generator: values, JSON trees, bytes, texts that are expensive to look through.

Knows nothing of what it is for. The same seed gives the same bytes.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

MARK = "fuzzed-by-the-test"
"""Stands in whatever could turn up under a false name."""

HOSTILE_NUMBERS = (0, -1, 1e308, -1e308, 1e-320, 10**400, -(10**30), 2**63, 2**31, 0.1, True)

HOSTILE_TEXTS = (
    "",
    "\0",
    "\ud800",
    "\u202e\u2066 reversed",
    "\x1b[2J\x1b]0;title\x07",
    "a\nb\r\nc",
    "../../../etc/passwd",
    "%s %d {0} {agent}",
    "<script>alert(1)</script>",
    "'; DROP TABLE agents; --",
    "é" * 3_000,
    MARK,
)

EXPENSIVE_TEXTS = (
    "-eyjaaaaaaaa",
    "eyJhbGciOi.",
    "Bearer ",
    "sk-",
    "sk-ant-",
    "password=",
    '"api_key": "',
    "://a:b@",
    "AKIA",
    "-----BEGIN ",
    "ghp_",
    "xoxb-1-",
    "plls_human_",
    "a@",
    "%25",
    "((((",
)


def hostile_value(rng: random.Random, depth: int = 0) -> Any:
    """A value for JSON that nobody has asked for."""
    kind = rng.randrange(9 if depth < 3 else 5)
    if kind <= 1:
        return rng.choice(HOSTILE_TEXTS)
    if kind == 2:
        return rng.choice(HOSTILE_NUMBERS)
    if kind == 3:
        return rng.choice((None, True, False, float("nan"), float("inf"), -float("inf")))
    if kind == 4:
        return expensive_text(rng, 20_000)
    if kind <= 6:
        return [hostile_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {str(hostile_value(rng, 3))[:50]: hostile_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def expensive_text(rng: random.Random, length: int) -> str:
    """A text of at most `length` characters that tempts a pattern to look at everything again and again."""
    piece = rng.choice(EXPENSIVE_TEXTS) + rng.choice(("", "a", "aaaaaaaa", " ", "=", "-", "."))
    return (piece * (length // len(piece) + 1))[: rng.randrange(1, length)]


def mutated(document: Any, rng: random.Random) -> Any:
    """A copy in which something is replaced, added, or missing."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 5))):
        document = _mutated_once(document, rng)
    return document


def _mutated_once(document: Any, rng: random.Random) -> Any:
    if isinstance(document, dict) and document and rng.random() < 0.85:
        key = rng.choice(list(document))
        what = rng.randrange(6)
        if what == 0:
            del document[key]
        elif what == 1:
            document[str(rng.choice(HOSTILE_TEXTS))] = hostile_value(rng)
        else:
            document[key] = _mutated_once(document[key], rng)
        return document
    if isinstance(document, list) and document and rng.random() < 0.85:
        place = rng.randrange(len(document))
        if rng.randrange(4) == 0:
            document.extend([document[place]] * rng.randrange(1, 300))
        else:
            document[place] = _mutated_once(document[place], rng)
        return document
    return hostile_value(rng)


def mangled(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with some of them changed, missing, doubled or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        place = rng.randrange(len(changed) + 1)
        what = rng.randrange(6)
        if what == 0:
            changed[place : place + 1] = rng.randbytes(1)
        elif what == 1:
            del changed[place : place + rng.randrange(1, 20)]
        elif what == 2:
            changed[place:place] = rng.randbytes(rng.randrange(1, 20))
        elif what == 3:
            changed[place:place] = changed[place : place + rng.randrange(1, 200)] * rng.randrange(1, 50)
        elif what == 4:
            del changed[place:]
        else:
            changed[place:place] = rng.choice((b"\0", b"\n", b"\r\n", b"\xff", b"{", b"[", b'"', b"&a *a"))
    return bytes(changed)


def deep(rng: random.Random, longest: int) -> bytes:
    """Brackets without end, or with one."""
    depth = rng.randrange(10, longest)
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[{", b"}]")))
    depth //= len(opening)
    return opening * depth + (b"1" + closing * depth if rng.random() < 0.5 else b"")


def lines(documents: Sequence[Any], rng: random.Random, size: int = 64_000) -> bytes:
    """Lines of JSON, and of what is nearly JSON, of at most about three times `size` bytes."""
    ways: list[Callable[[], bytes]] = [
        lambda: _json(mutated(rng.choice(documents), rng)),
        lambda: _json(mutated(rng.choice(documents), rng)),
        lambda: _json(hostile_value(rng)),
        lambda: mangled(_json(rng.choice(documents)), rng),
        lambda: deep(rng, size),
        lambda: rng.randbytes(rng.randrange(200)),
        lambda: expensive_text(rng, size).encode("utf-8", "surrogatepass"),
        lambda: b"\n" * rng.randrange(2_000),
    ]
    written = bytearray()
    for _ in range(rng.choice((1, 3, 20))):
        if len(written) > 2 * size:
            break
        written += rng.choice(ways)()[:size] + (b"\n" if rng.random() < 0.9 else b"")
    return bytes(written)


def one_line(value: Any) -> str:
    """The value as text that ends no line, of 20,000 characters at most."""
    return str(value).replace("\n", " ").replace("\r", " ")[:20_000]


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
