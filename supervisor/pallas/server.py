"""The `pallas` command (`python -m pallas.server`). Without a verb it serves the deployment here and now.

Its verbs prepare a deployment, or run it in the background.

Knows the names of the verbs and the options before them, and nothing of what the verbs do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallas_common import __version__
from pallasctl.groups import LazyGroup
from pallasctl.main import VERBS as PALLASCTL_VERBS
from pallasctl.options import config_option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERBS: Mapping[str, str] = {
    "init": "pallas.commands.init",
    "up": "pallas.commands.up",
    "down": "pallas.commands.down",
    "install-service": "pallas.commands.install_service",
    "store": "pallas.commands.store",
    "check": "pallasctl.verbs.configuration.check",
    "schema": "pallas.commands.schema",
    "completion": "pallas.commands.completion",
}
"""Verb → the module that holds the click command of that name."""


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    elsewhere=("pallasctl", PALLASCTL_VERBS),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--agent", metavar="NAME", help="Run this agent alone: no registry, no dependencies.")
@config_option
@click.option("-q", "--quiet", is_flag=True, help="Print problems alone.")
@click.version_option(__version__, prog_name="pallas")
@click.pass_context
def pallas(context: click.Context, agent: str | None, config: Path | None, *, quiet: bool) -> None:
    """Serve every agent of agents.yaml as a supervised MCP server of its own, with a registry.

    Exit status: 0 after a clean stop, 1 if something of this machine is in the way, 2 if the configuration or
    the command line is wrong.
    """
    if context.invoked_subcommand is None:
        from pallas.serve import serve

        serve(agent, config, quiet=quiet)
    elif agent is not None or config is not None or quiet:
        name = "--agent" if agent is not None else "--config" if config is not None else "--quiet"
        raise click.UsageError(
            f"{name} is for `pallas` without a verb; see `pallas {context.invoked_subcommand} --help`"
        )


def main() -> None:
    """The `pallas` command."""
    pallas.main(prog_name="pallas")


if __name__ == "__main__":
    main()
