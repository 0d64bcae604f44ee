"""How the files are named in which workers count: slots of an agent, and which files are whose.

Knows names only; the files' contents are another matter.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FOLDED = 0
"""Stands where a child's process ID would: what ended children of a slot's workers have counted, in one file."""

_FILE = re.compile(
    r"(?P<kind>[a-z]+(?:_[a-z]+)?)_(?P<agent>[A-Za-z0-9]+?)(?P<slot>s\d+)?(?:\.p(?P<child>\d+))?\.db"
)
_OF_SLOT = re.compile(r"(?:[a-z]+_){0,2}(?P<agent>[A-Za-z0-9]+?)s\d+\..*", re.DOTALL)
_SLOT = re.compile(r"(?P<agent>[A-Za-z0-9]+?)(?:s\d+)?")


class SlotFile(NamedTuple):
    """What the name of a values file says."""

    kind: str
    """`counter`, `histogram`, `summary`, or `gauge_` and the mode in which gauges are merged."""
    agent: str
    """What all slots of an agent begin with."""
    slot: str
    child: int | None
    """Process ID of a process that the slot's worker forked, or `FOLDED`; None for the worker itself."""

    @property
    def writer(self) -> str:
        """What stands for the process in the name."""
        return self.slot if self.child is None else f"{self.slot}.p{self.child}"


def slot_name(agent: str, index: int) -> str:
    """The name of an agent's slot; letters and digits only, as prometheus_client takes names apart at underscores.

    Args:
        agent: what tells agents apart in file names: letters and digits, a digit last.
    """
    return f"{agent}s{index}"


def agent_of(slot: str) -> str:
    """What all slots of the agent begin with."""
    found = _SLOT.fullmatch(slot)
    return found["agent"] if found is not None else slot


def agent_of_file(name: str) -> str | None:
    """What all slots of the agent begin with to which a file belongs, values file or not; None for other files."""
    found = _OF_SLOT.fullmatch(name)
    return None if found is None else found["agent"]


def file_name(kind: str, slot: str, child: int) -> str:
    """The name of a values file of a process that the slot's worker forked."""
    return f"{kind}_{slot}.p{child}.db"


def parse_name(name: str) -> SlotFile | None:
    """What the name of a values file says, None for any other name."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    child = found["child"]
    slot = found["agent"] + (found["slot"] or "")
    return SlotFile(found["kind"], found["agent"], slot, None if child is None else int(child))
