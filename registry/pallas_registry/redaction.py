"""Takes secrets out of what is about to be written: credentials by the names they go by, and by their looks.

Pure; knows neither where a text comes from nor where it goes. It is the last line of defence, not a licence
to log secrets: what has neither a telling name nor a telling shape passes.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"

_NAMES = (
    r"(?:api[_-]?key|access[_-]?key|private[_-]?key|passw(?:or)?d|passphrase|secret|credential|cookie"
    r"|(?<!progress)(?<!progress[_-])token(?!s))s?(?:[_-]?(?:key|value|hash|id))?"
)
# Between a name and its value: `=`, `: `, `": "`, `', b'` …; the value's opening quote is kept as `q`.
_BETWEEN = r"""(?:\\?["']?\s{0,8}[:=]\s{0,8}|["'],\s{0,8})(?:b?\\?(?P<q>["']))?"""
_IN_QUOTES = r"(?:(?!(?P=q)|\\).|\\(?!(?P=q)).)+"
_WORD = r"""[^\s"',;&<>(){}\[\]\\]+"""
_WORDS = rf"{_WORD}(?:[ \t]{{1,8}}(?![\w-]+[:=]\S){_WORD})?"

_SECRET_NAME = re.compile(rf"(?:authorization|{_NAMES})$", re.IGNORECASE)
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (rf"(authorization{_BETWEEN})(?(q){_IN_QUOTES}|{_WORDS})", rf"\g<1>{REDACTED}"),
        (r"\b(bearer\s{1,8})[a-z0-9._~+/=-]+", rf"\g<1>{REDACTED}"),
        (rf"({_NAMES}{_BETWEEN})(?(q){_IN_QUOTES}|{_WORD})", rf"\g<1>{REDACTED}"),
        (r"(?<![a-z0-9])sk[-_][a-z0-9_-]{6,}", REDACTED),
        (r"(?<![a-z0-9])(?:gh[pousr]_|hf_|xox[abprs]-|aiza)[a-z0-9_-]{16,}", REDACTED),
        (r"(?<![a-z0-9])eyj[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}\.[a-z0-9_-]*", REDACTED),
        (r"""(://[^\s/@:"']{0,128}:)[^\s/@"']+(?=@)""", rf"\g<1>{REDACTED}"),
    )
)
_SIGNS = (
    *("authorization", "bearer", "key", "passw", "passphrase", "secret", "credential", "cookie", "token"),
    *("sk-", "sk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "hf_", "xox", "aiza", "eyj", "@"),
)


def redact(text: str) -> str:
    """The text with every credential in it replaced by `[redacted]`; idempotent."""
    if not may_hold_secrets(text):
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def may_hold_secrets(text: str) -> bool:
    """A cheap first look: False only if `redact` would change nothing, in `text` or in its JSON form."""
    lowered = text.lower()
    return any(sign in lowered for sign in _SIGNS)


def is_secret_name(name: str) -> bool:
    """Whether what goes by this name is a secret: `Authorization`, `OPENAI_API_KEY`, `client_secret`, …"""
    return _SECRET_NAME.search(name) is not None
