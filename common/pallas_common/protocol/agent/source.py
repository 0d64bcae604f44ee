"""What an agent is made from: a Python module, a Python file, agent cards, or a definition.

Pure: a value that the registry makes of the text, and that the worker loads; neither takes the text apart again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SourceKind = Literal["module", "file", "card", "definition"]


@dataclass(frozen=True, slots=True)
class AgentSource:
    """What an agent is made from."""

    kind: SourceKind
    """`module`: a dotted path; `file`: a Python file; `card`: an agent card, or a folder of them; `definition`: the one
    in the worker's specification, of an agent that is declared as a resource."""
    path: str
    """The dotted path; of files and cards the path in the working directory, without `.`, `..` and doubled slashes;
    of a definition the resource's name."""
    name: str | None = None
    """What holds the FastAgent in the module or file; None: `fast`, or else the only one that it has."""
    is_factory: bool = False
    """`name` is called, without arguments, and returns the FastAgent."""

    def __str__(self) -> str:
        """As agents.yaml has it: `agents.jarvis`, `agents/my-jarvis.py:create()`, `cards/jarvis.md`."""
        if self.name is None:
            return self.path
        return f"{self.path}:{self.name}{'()' if self.is_factory else ''}"

    @property
    def key(self) -> Literal["module", "card"]:
        """The key of agents.yaml that says it."""
        return "card" if self.kind == "card" else "module"
