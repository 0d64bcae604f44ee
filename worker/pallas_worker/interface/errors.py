"""What goes wrong in a worker, named by what its reader can do about it.

Knows no library and no protocol; must not carry secrets or tracebacks.
"""

from __future__ import annotations


class AgentError(Exception):
    """The agent cannot be served. Its text is one line for people, without secrets."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent
        """A restart cannot mend it: a definition has to change first."""


class ArgumentError(ValueError):
    """An argument of a tool call does not fit. Its text says which one and why, for the caller to read."""


class CallError(Exception):
    """A call failed in a way that its caller may see; the text holds no secret."""

    def __init__(self, message: str, model_failure: object = None) -> None:
        super().__init__(message)
        self.model_failure = model_failure
        """The `ModelFailure` that it comes from, if there is one."""


class BusyError(Exception):
    """So many calls run and wait that one more is refused. Its text says how long that may last."""
