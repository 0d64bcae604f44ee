"""An exception of a request to a model, read once: of which kind it is, when to try again, what the provider said.

Pure. Knows where clients of providers keep status, code, headers and words; must not know fast-agent or calls.
"""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pallas_common.problems import shortened
from pallas_worker.interface.providers.classes import reading_of
from pallas_worker.interface.providers.kinds import KINDS, Kind, kind_of_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_worker.interface.providers.kinds import KindRow

LONGEST_DETAIL = 2000
"""Characters of the provider's own words that are kept."""
LONGEST_WAIT = 24 * 3600
"""Seconds of a `Retry-After` that is believed."""
_READ = 20_000
"""Characters of a provider's words that are searched."""

_CODES_OF: Mapping[Kind, str] = {
    "context_length": (
        "context_length_exceeded string_above_max_length exceed_context_size_error request_too_large "
        "model_max_prompt_tokens_exceeded prompt_too_long"
    ),
    "content_filter": (
        "content_filter content_policy_violation responsibleaipolicyviolation moderation_blocked "
        "invalid_prompt data_inspection_failed"
    ),
    "credit": "insufficient_quota billing_hard_limit_reached billing_error insufficient_balance",
    "rate_limit": "rate_limit_exceeded rate_limit_error resource_exhausted too_many_requests",
    "overloaded": "overloaded_error server_is_overloaded slow_down unavailable engine_overloaded_error",
    "key_refused": "invalid_api_key authentication_error unauthenticated invalid_authentication",
    "not_found": "model_not_found not_found_error",
    "timeout": "deadline_exceeded timeout_error",
}
_CODES = {code: kind for kind, codes in _CODES_OF.items() for code in codes.split()}
"""What providers call it."""

_REQUEST = frozenset({None, 400, 403, 413, 422, 500})
"""Statuses of a request that is at fault; some servers wrap another server's 400 in a 500."""
_WORDS: tuple[tuple[Kind, frozenset[int | None], re.Pattern[str]], ...] = (
    (
        "context_length",
        _REQUEST,
        re.compile(
            r"maximum (context|prompt|sequence|input) length|max(imum)?_?(model|seq)_?len\b"
            r"|(exceed|longer than|larger than|beyond|outgr).{0,60}context (length|window|size)"
            r"|context (length|window|size).{0,40}(exceed|too small|overflow)|(prompt|input|conversation) is too long"
            r"|input token count.{0,40}exceed|too many (input |prompt )?tokens"
            r"|(requested|prompt) token count.{0,20}exceed|reduce the length of (the |your )?(messages|prompt|input)",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        "content_filter",
        _REQUEST,
        re.compile(
            r"content (management |usage )?policy|content.?filter|safety (system|filter|reasons)|\bwas flagged\b"
            r"|requires moderation|data may contain inappropriate",
            re.IGNORECASE,
        ),
    ),
    (
        "credit",
        _REQUEST | {402, 429},
        re.compile(
            r"credit balance|insufficient (funds|credit|balance|quota)|exceeded your current quota|out of credit",
            re.IGNORECASE,
        ),
    ),
    (
        "key_refused",
        _REQUEST,
        re.compile(r"api key (is )?(not valid|invalid)|invalid api key", re.IGNORECASE),
    ),
)
"""What they say where no code does: (kind, statuses, words)."""

_HEALTH_REASONS = {
    401: "HTTP 401: the API key is not accepted",
    402: "HTTP 402: the account is not in credit",
    404: "HTTP 404: the model or the address is not known there",
}


class ModelFailure(NamedTuple):
    """Why a model gave no answer."""

    kind: Kind
    status: int | None = None
    """Of the provider's answer, if there was one."""
    provider: str | None = None
    """As health names it; None where nobody knows."""
    retry_after: int | None = None
    """Seconds that the provider asks to wait."""
    detail: str = ""
    """The provider's or its library's own words: not for everybody, and not redacted yet."""
    host: str | None = None
    """Where it was asked."""
    remedy: str | None = None
    """What to do, where that is more than the kind says."""

    @property
    def row(self) -> KindRow:
        """What the kind means."""
        return KINDS[self.kind]

    @property
    def reason(self) -> str:
        """What health says of it, in one line."""
        if self.kind == "key_missing":
            return ": ".join(filter(None, ("no API key is configured", self.remedy)))
        if self.status is not None:
            return _HEALTH_REASONS.get(self.status, f"HTTP {self.status}")
        return "the API key is not accepted" if self.kind == "key_refused" else "it gives no answer"

    def sentence(self) -> str:
        """What a person reads: what has happened, and what to do."""
        provider = "the LLM provider" if self.host is None else f"the LLM provider at {self.host}"
        if self.kind == "key_missing" and self.provider is not None:
            provider = self.provider
        said = self.row.sentence.format(who=provider)
        if self.status is not None and self.row.health != "fine":
            said = f"{said} (HTTP {self.status})"
        remedy = self.remedy or self.row.remedy
        if self.retry_after is not None and self.row.client_again:
            remedy = f"try again in {self.retry_after} s"
        return f"{said}; {remedy}"


def failure_of(
    error: BaseException, *, provider: str | None = None, host: str | None = None
) -> ModelFailure | None:
    """What an exception that ended a request to a model says; None where it is nothing of the provider's.

    The outermost link of its chain decides that has a place in the table; one that fast-agent makes of all errors
    of a provider ("the key") only where nothing behind it says more.
    """
    of_key: BaseException | None = None
    for link in chain_of(error):
        if isinstance(noted := getattr(link, "model_failure", None), ModelFailure):
            return noted
        reading = reading_of(link)
        if reading is None or reading == "other":
            if isinstance(link, OSError) and not isinstance(link, FileNotFoundError | PermissionError):
                kind: Kind = "timeout" if isinstance(link, TimeoutError) else "unreachable"
                return ModelFailure(kind, provider=provider, host=host, detail=_detail(link))
            continue
        if reading == "setup":
            return None
        if type(link).__name__ == "ProviderKeyError":
            of_key = of_key or link
            continue
        kind, status = _answered(link) if reading == "answered" else (reading, _status(link))
        if kind == "unreachable":
            kind = _broken(link)
        return ModelFailure(kind, status, provider, _retry_after(link), _detail(link), host)
    if of_key is None:
        return None
    return ModelFailure("key_refused", provider=provider, host=host, detail=_detail(of_key))


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The exception, those of its groups, and what they come from, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        behind = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        waiting += [behind] if behind is not None else []
        if isinstance(link, BaseExceptionGroup):
            waiting += reversed(link.exceptions)


def _answered(error: BaseException) -> tuple[Kind, int | None]:
    """The kind by code, then by words, then by status."""
    status = _status(error)
    for code in _codes(error):
        kind = _CODES.get(code.lower())
        if kind is not None and not (kind == "rate_limit" and status is not None and status >= 500):
            return ("credit" if kind == "rate_limit" and _says(error, "credit", 429) else kind), status
    for kind, statuses, _ in _WORDS:
        if status in statuses and _says(error, kind, status):
            return kind, status
    return ("failed" if status is None else kind_of_status(status)), status


def _broken(error: BaseException) -> Kind:
    """How a connection has failed: clients of providers say the same of one that was never made and one that broke."""
    readings = map(reading_of, chain_of(error))
    return next((found for found in readings if found in ("broken_off", "timeout")), "unreachable")


def _says(error: BaseException, kind: Kind, status: int | None) -> bool:
    words = f"{_words(error)} {getattr(error, 'body', None)!s:.{_READ}}"
    return any(
        known == kind and status in statuses and pattern.search(words) for known, statuses, pattern in _WORDS
    )


def _status(error: BaseException) -> int | None:
    """The status of HTTP that an error carries: most clients call it `status_code`, Google's `code`."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            found = getattr(holder, name, None)
            if isinstance(found, int) and not isinstance(found, bool) and 300 <= found < 600:
                return found
    for code in _codes(error):  # an error in the middle of a stream has none but this
        if code.isdecimal() and 400 <= int(code[:4]) < 600:
            return int(code)
    return None


def _codes(error: BaseException) -> Iterator[str]:
    """The words for programs: of the error itself, of the body that came with it, and of errors in that."""
    waiting: list[Any] = [error, getattr(error, "body", None), getattr(error, "details", None)]
    for place, holder in enumerate(waiting):
        if place > 8:
            return
        for name in ("code", "error_code", "type", "status"):
            found = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if isinstance(found, str | int) and not isinstance(found, bool):
                yield str(found)[:100]
        if isinstance(holder, dict):
            waiting += [holder[key] for key in ("error", "innererror") if isinstance(holder.get(key), dict)]


def _words(error: BaseException) -> str:
    try:
        return str(error)[:_READ]
    except Exception:  # noqa: BLE001 - a foreign __str__
        return ""


def _detail(error: BaseException) -> str:
    words = _words(error).strip()
    name = type(error).__name__
    return shortened(f"{name}: {words}" if words else name, LONGEST_DETAIL)


def _retry_after(error: BaseException) -> int | None:
    """The seconds that the provider asks to wait: of its headers, or of what Google writes into the body."""
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    said: object = None
    try:
        if headers is not None:
            said = headers.get("retry-after")
    except Exception:  # noqa: BLE001 - of any library
        said = None
    seconds = _seconds(said) if isinstance(said, str) else None
    if seconds is None and (found := re.search(r"retryDelay\W{1,6}(\d{1,6})(?:\.\d+)?s\b", _words(error))):
        seconds = float(found[1])
    return None if seconds is None else max(1, min(round(seconds + 0.49), LONGEST_WAIT))


def _seconds(header: str) -> float | None:
    """What a `Retry-After` says: a number of seconds, or a moment."""
    header = header.strip()[:100]
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", header):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
