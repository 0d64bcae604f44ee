"""Follows a supervisor over its control API and tells the story of its agents in this terminal.

Knows the control API and the story's parts; what is said and how it looks is theirs. Looks again and again rather than
waiting for one answer, so that each agent is told as it becomes ready.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.logs.levels import level_number
from pallas_common.logs.records import parse_record
from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_control.errors import ControlError
from pallas_supervisor.logs.console.lines import DeploymentView, view_of
from pallas_supervisor.logs.console.story import Story
from pallas_supervisor.logs.console.terminal import Screen, printed

if TYPE_CHECKING:
    from pallas_control.client import Control
    from pallas_control.documents import StatusDocument

INTERVAL = 0.1
"""Seconds between two looks."""
_MOST_RECORDS = 500
_LOOKED_AT = 50


class Follower:
    """The story of a running supervisor's agents.

    Args:
        way_out: how to stop it, a sentence.
        began: when the start began that is told, on the monotonic clock.
    """

    def __init__(
        self,
        control: Control,
        document: StatusDocument,
        *,
        way_out: str,
        quiet: bool,
        began: float,
        since: datetime,
    ) -> None:
        self._control = control
        self.story = Story(self._output, way_out)
        names = [agent["name"] for agent in document["agents"]]
        self._screen = Screen(sys.stderr, names, os.environ, quiet=quiet)
        self._since = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._seen: set[bytes] = set()
        """Records of the moment `_since`."""
        self.waits_for_gateway = document.get("gateway") is not None
        """Whether there is a gateway that is still on its way up."""
        gateway, state = document.get("gateway"), document["supervisor"].get("state_directory")
        view = DeploymentView(
            name=document["deployment"],
            version=document["supervisor"]["version"],
            file=document.get("file", ""),
            page=document.get("url"),
            agents=tuple(names),
            gateway=None if gateway is None else gateway["public_url"],
            token=None if state is None else str(Path(state, OPERATOR_FILE)),
        )
        self._screen.show(self.story.open(view, began), timed=False)

    def look(self) -> None:
        """Say what has changed.

        Raises:
            ControlError: the supervisor does not answer any more.
        """
        now = time.monotonic()
        for line in self._news():
            if (record := parse_record(line)) is not None:
                level = level_number(record.get("level"))
                said = self.story.record(str(record.get("agent") or ""), record, level, now)
                self._screen.show(said, timed=False)
        document: StatusDocument = self._control.get("/v1/status")
        gateway = document.get("gateway")
        self.waits_for_gateway = (
            gateway is not None
            and gateway["desired"] == "up"
            and gateway["state"] in ("stopped", "waiting", "starting")
        )
        said = self.story.look(map(view_of, document["agents"]), now)
        self._screen.show(said, timed=False)

    def close(self) -> None:
        """Write what waits to be written."""
        self._screen.close()

    def _news(self) -> list[bytes]:
        query: dict[str, str | int] = {"level": "WARNING", "n": _MOST_RECORDS, "since": self._since}
        lines = [line.rstrip(b"\n") for line in self._control.lines("/v1/logs", query) if line.strip()]
        new = [line for line in lines if line not in self._seen]
        if new and (record := parse_record(new[-1])) is not None:
            self._since = str(record.get("time") or self._since)
            self._seen = {line for line in lines if self._since.encode() in line}
        return new

    def _output(self, name: str) -> list[str]:
        try:
            return printed(self._control.lines("/v1/logs", {"agent": name, "n": _LOOKED_AT}))
        except ControlError:
            return []
