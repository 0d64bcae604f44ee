"""The verb `restart`."""

from __future__ import annotations

import click

from pallasctl.verbs.agents.goals import goal_verb

restart = goal_verb(
    "restart",
    "ready",
    "Restart agents without losing a call.\n\nThe new worker is ready before the old one drains. Several "
    "agents are restarted one after the other, after what they depend on (max_surge in agents.yaml); the "
    "first that does not come up ends it, and the old workers go on. Waits until the old workers are gone.",
    click.option("--now", is_flag=True, help="Stop the old worker first; callers get a 503 meanwhile."),
)
