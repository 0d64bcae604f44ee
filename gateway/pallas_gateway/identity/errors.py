"""Why somebody is not known: what the HTTP layer answers follows from the type. Pure."""

from __future__ import annotations


class AuthenticationError(Exception):
    """Nobody is known by this request. The message may be shown to whoever sent it, and holds nothing of the token."""

    reason = "unknown"
    """Of a small set, for metrics."""


class MissingTokenError(AuthenticationError):
    """There is no bearer token: 401 without an error code (RFC 6750, section 3.1)."""

    reason = "missing"


class InvalidRequestError(AuthenticationError):
    """The Authorization header says two things, or is too long: 400, `invalid_request`."""

    reason = "malformed"


class InvalidTokenError(AuthenticationError):
    """The token is unknown, expired, revoked or none at all: 401, `invalid_token`."""

    reason = "invalid"


class NotForPeopleError(AuthenticationError):
    """The token counts, and not for logging in: 401."""

    reason = "role"


class MalformedRecordError(AuthenticationError):
    """The token is known, and its record cannot be understood: 500, with the record's id in the log."""

    reason = "record"

    def __init__(self, record: str, problem: str) -> None:
        super().__init__("the record of this token is damaged; an administrator finds it in the log")
        self.record = record
        self.problem = problem


class AuthenticationUnavailableError(AuthenticationError):
    """Who it is cannot be found out now, for the store does not answer: 503."""

    reason = "unavailable"


class TooManyUnknownError(AuthenticationError):
    """So many unknown tokens wait to be looked up that this one is not: 429, to be tried again."""

    reason = "flood"
