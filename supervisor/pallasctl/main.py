"""The command line: a table of verbs, each loaded only when it is used.

Knows the names of the verbs and the options before them, and nothing of what the verbs do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, override

import click

from pallas_common.problems import did_you_mean, quoted
from pallas_control.errors import ControlError
from pallasctl.failures import Failure
from pallasctl.options import socket_option

if TYPE_CHECKING:
    from collections.abc import Mapping

VERBS: Mapping[str, str] = {
    "status": "pallasctl.verbs.state.status",
    "start": "pallasctl.verbs.agents.start",
    "stop": "pallasctl.verbs.agents.stop",
    "restart": "pallasctl.verbs.agents.restart",
    "wait": "pallasctl.verbs.agents.wait",
    "logs": "pallasctl.verbs.state.logs",
    "health": "pallasctl.verbs.state.health",
    "reload": "pallasctl.verbs.configuration.reload",
    "check": "pallasctl.verbs.configuration.check",
}
"""Verb → the module that holds the click command of that name."""


class _Verbs(click.Group):
    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(VERBS[cmd_name]), cmd_name)
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Click suggests among commands that are loaded; here they are loaded only when they are used.
        if (name := args[0]) not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            near = did_you_mean(name, VERBS)
            way_out = f"did you mean {near!r}?" if near else f"the verbs are: {', '.join(VERBS)}"
            ctx.fail(f"there is no verb {quoted(name)}; {way_out}")
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ControlError as error:
            raise Failure(error.message, details=error.details) from error


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@socket_option
@click.version_option(package_name="pallas-mcp", message="pallasctl %(version)s")
def pallasctl() -> None:
    """Operate a running Pallas: see, start, stop and restart its agents, read their logs.

    The supervisor is found through agents.yaml in the working directory; without one, it is the only
    supervisor that runs here, or the one that --socket names.

    Exit status: 0 done, 1 failed, 2 wrong usage. `status` has its own: see `pallasctl status --help`.
    """


def main() -> None:
    """The `pallasctl` command."""
    pallasctl.main(prog_name="pallasctl")
