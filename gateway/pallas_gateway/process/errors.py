"""Why the gateway cannot serve."""

from __future__ import annotations


class GatewayError(Exception):
    """The gateway cannot serve; its text says why, in one line.

    Args:
        permanent: a restart cannot mend it.
    """

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent
