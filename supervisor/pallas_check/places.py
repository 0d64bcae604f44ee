"""Where in `agents.yaml` something stands: for problems that are found later than the file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError, Problem
from pallas_registry.reading.fields import Fields
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import compose

if TYPE_CHECKING:
    from pathlib import Path


class Places:
    """The lines of a file that has been read before, and could be.

    Args:
        path: as problems shall name it.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self._root: Fields | None = None
        try:
            root = compose(read_file(path) or b"", self.file)
        except ConfigurationError:  # it has changed since
            root = None
        if root is not None:
            self._root = Fields(root, file=self.file, field="", line=1, problems=[])

    def of_agent(self, agent: str, keys: tuple[str, ...], message: str, remedy: str = "") -> Problem:
        """A problem with the first of these keys that the agent's entry has, or with the entry."""
        agents = self._root.section("agents") if self._root is not None else None
        entry = agents.section(agent) if agents is not None and agent in agents else None
        key = next((key for key in keys if entry is not None and key in entry), "")
        line = entry.line(key) if entry is not None else None
        field = ".".join(part for part in ("agents", agent, key) if part)
        return Problem(self.file, line, field, message, remedy)

    def of_deployment(self, key: str, message: str, remedy: str = "") -> Problem:
        """A problem with a key at the top, which may not be there."""
        line = self._root.line(key) if self._root is not None and key in self._root else None
        return Problem(self.file, line, key, message, remedy)
