"""What goes wrong in a worker, named by what its reader can do about it.

Knows no library and no protocol; must not carry secrets or tracebacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NoReturn

if TYPE_CHECKING:
    from pallas_worker.interface.providers.failures import ModelFailure

type FailureKind = Literal["argument", "forbidden", "busy", "loop", "model", "agent", "internal"]
"""Whose matter the failure of a turn is: the caller's, or his rights, the load's, that of agents that hand a call on to
each other, the LLM's, the agent's, or ours."""


class AgentError(Exception):
    """The agent cannot be served. Its text is one line for people, without secrets."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent
        """A restart cannot mend it: a definition has to change first."""


class ArgumentError(ValueError):
    """An argument of a call does not fit. Its text says which one and why, for the caller to read."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        """Which one, for programs."""


def refuse(where: str, complaint: str) -> NoReturn:
    """Refuse a request for what stands at `where`, such as `messages[3].content`."""
    raise ArgumentError(f"{where}: {complaint}", where)


class ForbiddenError(ArgumentError):
    """The caller has no right to what the argument asks for."""


class CallError(Exception):
    """A call failed in a way that its caller may see; the text holds no secret."""

    def __init__(self, message: str, model_failure: ModelFailure | None = None) -> None:
        super().__init__(message)
        self.model_failure = model_failure
        """What it comes from, where a provider has failed."""


class BusyError(Exception):
    """So many calls run and wait that one more is refused. Its text says how long that may last."""

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds until there may be room, at least 1; None where nobody can say."""


class LoopError(Exception):
    """Agents have handed a call on to each other too often. Its text is for a model."""


class FailedTurn(Exception):  # noqa: N818 - it is how a turn ends, and no fault of the program
    """A turn has ended without an answer. Its text is for the caller: redacted, in one line or a few."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        cause: Exception,
        *,
        model_failure: ModelFailure | None = None,
        acted: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.model_failure = model_failure
        """What the provider said, redacted, where it is one that has failed."""
        self.acted = acted
        """Whether a tool was called in the turn: then nobody may send it again without a person's word."""
        self.field = cause.field if isinstance(cause, ArgumentError) else None
        """The argument that does not fit, where it is one."""
        self.retry_after = cause.retry_after if isinstance(cause, BusyError) else None
        if model_failure is not None:
            self.retry_after = model_failure.retry_after
        """Seconds after which to try again, where that can be said."""
