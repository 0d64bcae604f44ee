"""The verb `stop`."""

from __future__ import annotations

import click

from pallasctl.verbs.agents.goals import goal_verb

stop = goal_verb(
    "stop",
    "stopped",
    "Stop agents.\n\nCalls in flight are finished, within stop_timeout. Waits until they are stopped.",
    click.option("--cascade", is_flag=True, help="Stop those that depend on them as well."),
)
