"""What an operator asked for and does not get: the reasons, as errors whose text is what people read."""

from __future__ import annotations


class UnknownAgentError(Exception):
    """No such agents; the message names them and those that there are."""


class RefusedError(Exception):
    """What is asked for cannot be done in this situation; the message says why and the way out."""


class NotKeptError(Exception):
    """What is to outlive the supervisor could not be written; the message says why, and that nothing was changed."""
