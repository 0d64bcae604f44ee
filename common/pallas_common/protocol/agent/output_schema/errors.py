"""What is wrong with a schema, or with an answer to it, for people and models to read.

Knows no library: importing this costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class SchemaError(ValueError):
    """A schema that is refused: where in it, what is wrong and what to do."""

    def __init__(self, pointer: str, message: str, remedy: str) -> None:
        super().__init__(f"{pointer or 'the schema'}: {message}; {remedy}")
        self.pointer = pointer
        """A JSON pointer; empty for the whole."""
        self.message = message
        self.remedy = remedy


class Misfit(NamedTuple):
    """One thing that is wrong with a value."""

    path: str
    """A JSON pointer into the value; empty for the whole."""
    reason: str


class MisfitError(ValueError):
    """An answer does not fit. Its text says where and why, a line each, without the answer itself."""

    def __init__(self, misfits: tuple[Misfit, ...]) -> None:
        super().__init__("\n".join(f"- {misfit.path or 'the answer'}: {misfit.reason}" for misfit in misfits))
        self.misfits = misfits
