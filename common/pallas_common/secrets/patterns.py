"""Takes secrets out of what is about to be written: credentials by the names they go by, and by their looks.

Pure; knows neither where a text comes from nor where it goes. It is the last line of defence, not a licence
to log secrets: what has neither the name nor the shape of a secret passes.

The work is linear in the length of the text, whatever the text: each rule begins with letters, so that it is tried at
few places, and what it runs over it either takes whole (possessive quantifiers, no way back) or within a bound.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REDACTED = "[redacted]"

# Letters are lower-case here, since what is looked at is. Looks back come after the first letters: a rule that begins
# with a letter is found by searching for that letter, which costs next to nothing.
_NAMES = (
    r"(?:api[_-]?key|access[_-]?key|private[_-]?key|passw(?:or)?d|passphrase|secret|credential|cookie"
    r"|token(?!s)(?<!progresstoken)(?<!progress[_-]token))s?(?:[_-]?(?:key|value|hash|id))?"
)
# Between a name and its value: `=`, `: `, `": "`, `', b'` …
_BETWEEN = r"""(?:\\?["']?\s{0,8}[:=]\s{0,8}|["'],\s{0,8})"""


def _quoted(quote: str) -> str:
    """A text in quotes, which may be escaped, as within another text in quotes; the opening one is kept."""
    return rf"b?\\?{quote}(?P<{'single' if quote == "'" else 'double'}>(?:[^{quote}\\\n]++|\\(?!{quote})[^\n]?)++)"


_IN_QUOTES = rf"{_quoted('"')}|{_quoted("'")}"
_WORD = r"""[^\s"',;&<>(){}\[\]\\]++"""
_WORDS = rf"{_WORD}(?:[ \t]{{1,8}}+(?![\w-]++[:=]\S){_WORD})?"
_PART = "[a-z0-9_-]"

RULES = {
    name: re.compile(pattern)
    for name, pattern in (
        ("authorization", rf"authorization{_BETWEEN}(?:{_IN_QUOTES}|(?P<word>{_WORDS}))"),
        ("bearer", r"bearer(?<!\wbearer)\s{1,8}+(?P<word>[a-z0-9._~+/=-]++)"),
        ("named", rf"{_NAMES}{_BETWEEN}(?:{_IN_QUOTES}|(?P<word>{_WORD}))"),
        ("sk", rf"(?P<word>sk[-_](?<![a-z0-9]sk.){_PART}{{6,}}+)"),
        *(
            (name, rf"(?P<word>{begin}(?<![a-z0-9]{'.' * length}){_PART}{{16,}}+)")
            for name, begin, length in (
                ("github", "gh[pousr]_", 4),
                ("huggingface", "hf_", 3),
                ("slack", "xox[abprs]-", 5),
                ("google", "aiza", 4),
            )
        ),
        # Also behind a letter: our own is known well enough, and callers make up names that are written down.
        ("pallas", rf"(?P<word>plls_{_PART}{{16,}}+)"),
        # What might be a token's first part is taken whole even if it is none: what is in it begins no other token.
        ("jwt", rf"(?P<word>eyj(?<![a-z0-9]eyj){_PART}{{8,}}+(?P<rest>\.{_PART}{{8,}}+\.{_PART}*+)?)"),
        ("url", r"""://[^\s/@:"']{0,128}+:(?P<word>[^\s/@"']++)@"""),
    )
}
"""What is looked for, in a text in lower case; `word`, `single` or `double` is what must go."""

KEY_SHAPES = ("sk", "github", "huggingface", "slack", "google", "pallas", "jwt")
"""The rules that know a key by its looks alone."""

_SIGNS = (
    *("authorization", "bearer", "key", "passw", "passphrase", "secret", "credential", "cookie", "token"),
    *("sk-", "sk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "xox", "aiza", "plls_", "eyj", "@"),
)
_SECRET_NAME = re.compile(rf"(?:authorization|{_NAMES})$")


class Found(NamedTuple):
    """A credential in a text: what must go, and how far that reaches by which it is recognised."""

    begin: int
    end: int
    first: int
    last: int


def redact(text: str, rules: Iterable[str] = RULES) -> str:
    """The text with every credential in it replaced by `[redacted]`; idempotent. `rules` are names of `RULES`."""
    kept: list[str] = []
    position = 0
    for found in sorted(credentials(text, rules)):
        if found.begin >= position:
            kept += (text[position : found.begin], REDACTED)
        position = max(position, found.end)
    return "".join((*kept, text[position:])) if kept else text


def credentials(text: str, rules: Iterable[str] = RULES) -> Iterator[Found]:
    """All credentials in the text that one of `rules` knows, in no order; they may overlap."""
    lowered = _lower(text)
    if not any(sign in lowered for sign in _SIGNS):
        return
    for rule in map(RULES.__getitem__, rules):
        for match in rule.finditer(lowered):
            group = match.lastgroup
            if group == "word" and rule is RULES["jwt"] and match["rest"] is None:
                continue
            assert group is not None
            yield Found(*match.span(group), *match.span())


def may_hold_secrets(text: str) -> bool:
    """A cheap first look: False only if `redact` would change nothing, in `text` or in its JSON form."""
    lowered = _lower(text)
    return any(sign in lowered for sign in _SIGNS)


def is_secret_name(name: str) -> bool:
    """Whether what goes by this name is a secret: `Authorization`, `OPENAI_API_KEY`, `client_secret`, …"""
    return _SECRET_NAME.search(_lower(name[-_LONGEST_NAME:])) is not None


_LONGEST_NAME = 256
"""Characters at the end of a name that can make it that of a secret; more than any of the names above has."""


def _lower(text: str) -> str:
    """The text in lower case, each character at its place: this one alone would become two."""
    return text.replace("\u0130", "i").lower()
