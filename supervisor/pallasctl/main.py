"""The command line: a table of verbs, each loaded only when it is used.

Knows the names of the verbs and the options before them, and nothing of what the verbs do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallasctl.groups import LazyGroup
from pallasctl.options import supervisor_options

if TYPE_CHECKING:
    from collections.abc import Mapping

VERBS: Mapping[str, str] = {
    "status": "pallasctl.verbs.state.status",
    "start": "pallasctl.verbs.agents.start",
    "stop": "pallasctl.verbs.agents.stop",
    "restart": "pallasctl.verbs.agents.restart",
    "wait": "pallasctl.verbs.agents.wait",
    "ask": "pallasctl.verbs.talk.ask",
    "chat": "pallasctl.verbs.talk.chat.command",
    "logs": "pallasctl.verbs.state.logs",
    "events": "pallasctl.verbs.state.events",
    "health": "pallasctl.verbs.state.health",
    "connect": "pallasctl.verbs.talk.connect",
    "describe": "pallasctl.verbs.state.describe",
    "top": "pallasctl.verbs.state.top",
    "cat": "pallasctl.verbs.configuration.cat",
    "reload": "pallasctl.verbs.configuration.reload",
    "gateway": "pallasctl.verbs.gateway.command",
    "token": "pallasctl.verbs.gateway.token",
    "audit": "pallasctl.verbs.gateway.audit",
    "check": "pallasctl.verbs.configuration.check",
    "apply": "pallasctl.verbs.resources.apply",
    "get": "pallasctl.verbs.resources.get",
    "create": "pallasctl.verbs.resources.create.command",
    "edit": "pallasctl.verbs.resources.edit",
    "delete": "pallasctl.verbs.resources.delete",
    "diff": "pallasctl.verbs.resources.diff",
}
"""Verb → the module that holds the click command of that name."""


_OF_PALLAS = ("init", "up", "down", "install-service", "store", "schema", "completion")
"""The verbs of `pallas`, which people look for here."""


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    elsewhere=("pallas", _OF_PALLAS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@supervisor_options
@click.version_option(package_name="pallas-mcp", message="pallasctl %(version)s")
def pallasctl() -> None:
    """Operate a running Pallas: see, start, stop and restart its agents, read their logs, talk to them.

    The supervisor is found through agents.yaml in the working directory; without one, it is the only
    supervisor that runs here, or the one that --socket names.

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted. `status` has its own: see `pallasctl status --help`.
    """


def main() -> None:
    """The `pallasctl` command."""
    pallasctl.main(prog_name="pallasctl")
