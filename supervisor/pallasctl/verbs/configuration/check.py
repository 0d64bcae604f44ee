"""The verb `check`: what is wrong with a deployment, found before it is started.

Knows how a report is printed; what is looked at is in `pallas_check`. Needs no supervisor. `pallas check` is the same.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallas_common.problems import ConfigurationError, counted
from pallas_common.terminal_text import terminal_json, terminal_text
from pallasctl.failures import EXIT_INTERRUPTED, Failure, InvalidConfiguration
from pallasctl.options import SECONDS, output_option
from pallasctl.text import Cell, one_line, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallas_check.check import Mode
    from pallas_check.findings import CheckedAgent, CheckReport
    from pallas_common.protocol.inspection import Inspection
    from pallasctl.text import Colour

RESULT_COLOURS: Mapping[str, Colour] = {"ok": "green", "warning": "yellow", "error": "red"}
MOST_OPEN = 20
"""Resources of which it is said that their URLs may lead to this machine."""
MOST_NAMED = 20
"""Agents that are named in the last line."""
HEADER = ("AGENT", "RESULT", "MODEL", "SERVERS", "MADE OF")


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--offline", is_flag=True, help="Read the files alone; import no agent.")
@click.option("--online", is_flag=True, help="Ask the agents' servers and LLM providers, too.")
@click.option(
    "--timeout",
    type=SECONDS,
    metavar="SECONDS",
    help="For each agent  [default: its start_timeout, at most 60]",
)
@click.option(
    "--agent", "agents", metavar="NAME", multiple=True, help="Try this agent alone; may be repeated."
)
@output_option("table", "json")
def check(
    file: Path | None,
    offline: bool,
    online: bool,
    timeout: float | None,
    agents: tuple[str, ...],
    output: str,
) -> None:
    """Find what is wrong before a start.

    FILE is the agents.yaml that `pallas` would read here, unless given; .env and fastagent.config.yaml are
    those of its folder. The files are read as at a start. If they are good, ports are tried, and each agent's
    code is imported in a process of its own, and one instance made; of declared agents with the same model,
    servers and interpreter, one. No server and no LLM provider is asked without --online. All problems are
    listed at once; warnings do not count.

    Exit status: 0 it is good; 1 something around it is in the way, such as a port that is taken or, with
    --online, a server that does not answer; 2 the configuration or an agent's code is wrong.
    """
    if offline and online:
        raise click.UsageError("give --offline or --online, not both")
    if offline and agents:
        raise click.UsageError("give --offline or --agent, not both: no agent is tried offline")
    mode: Mode = "offline" if offline else "online" if online else "local"
    report = _checked(file, mode, timeout, agents)
    if output == "json":
        from pallas_check.document import document

        click.echo(terminal_json(document(report, mode)))
        if report.errors:
            click.get_current_context().exit(_failure(report).exit_code)
        return
    _print(report)
    if report.errors:
        raise _failure(report)
    more = len(report.names) - MOST_NAMED
    names = ", ".join((*report.names[:MOST_NAMED], *([f"and {more} more"] if more > 0 else ())))
    deployed = f"with {counted(len(report.names), 'agent')} ({names})"
    none = "without agents yet: describe some below `agents:`, or declare them with `pallasctl apply`"
    gateway = "" if report.gateway is None else f"a gateway at {report.gateway}"
    if report.names:
        said = f"{deployed} and {gateway}" if gateway else deployed
    else:
        said = f"with {gateway}, {none}" if gateway else none
    click.echo(f"{report.path}: good: deployment {report.deployment} {said}")


def _checked(file: Path | None, mode: Mode, timeout: float | None, agents: Sequence[str]) -> CheckReport:
    from pallas_check.check import check as check_deployment
    from pallas_registry.deployment.location import working_directory

    try:
        directory = file.parent if file is not None else working_directory()
    except ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None
    progress = _Progress()
    try:
        return asyncio.run(
            check_deployment(
                directory, file, os.environ, mode=mode, timeout=timeout, agents=agents, progress=progress.show
            )
        )
    except KeyboardInterrupt:  # by now, nothing is left of what was started
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    finally:
        progress.clear()


def _print(report: CheckReport) -> None:
    """The table on stdout, warnings on stderr."""
    if report.agents:
        click.echo(table(HEADER, [_row(agent) for agent in report.agents], fit=True))
        if len(report.agents) < len(report.names):
            alike = any(agent.alike for agent in report.agents)
            why = ": of declared ones with the same model, servers and interpreter, one" if alike else ""
            click.echo(f"tried {len(report.agents)} of {counted(len(report.names), 'agent')}{why}")
    if report.open_network:
        shown = report.open_network[:MOST_OPEN]
        more = len(report.open_network) - len(shown)
        listed = ", ".join(shown) + (f" and {more} more" if more else "")
        click.echo(f"URLs may lead to this machine (`network: open`): {listed}")
    program = click.get_current_context().find_root().info_name or "pallasctl"
    for finding in report.warnings:
        click.echo(f"{program}: warning: {finding.problem}", err=True)


def _failure(report: CheckReport) -> Failure:
    """The summary, and below it each problem with what the agent has printed."""
    errors = report.errors
    number = len(errors)
    kind = Failure if all(error.cause == "machine" for error in errors) else InvalidConfiguration
    summary = "one problem" if number == 1 else f"{number} problems"
    shown = ConfigurationError(error.problem for error in errors).problems
    outputs = [*(error.output for error in errors), ""]  # where some are left out, a line says so
    details = [
        line for problem, output in zip(shown, outputs, strict=False) for line in _lines(str(problem), output)
    ]
    return kind(f"{report.path}: {summary}", details=details)


def _lines(problem: str, output: str) -> Iterator[str]:
    yield problem
    if output:
        yield "  it printed:"
        yield from (f"  | {line}" for line in terminal_text(output).split("\n"))


def _row(agent: CheckedAgent) -> Sequence[Cell]:
    inspection = agent.inspection
    name = Cell(f"{agent.name} (+{len(agent.alike)} alike)" if agent.alike else agent.name)
    result = Cell(agent.result, RESULT_COLOURS[agent.result])
    if inspection is None:
        return name, result, Cell("-"), Cell("-"), Cell("-")
    return (
        name,
        result,
        Cell(one_line(_models(inspection))),
        Cell(one_line(_servers(inspection))),
        Cell(one_line(_parts(agent, inspection))),
    )


def _models(inspection: Inspection) -> str:
    providers = [
        f"{provider.name} {_latency(provider.up, provider.latency)}" for provider in inspection.providers
    ]
    models = ", ".join(inspection.models) or "-"
    return f"{models} ({', '.join(providers)})" if providers else models


def _servers(inspection: Inspection) -> str:
    return (
        ", ".join(
            f"{server.name} {_latency(server.up, server.latency if server.transport != 'stdio' else None)}".rstrip()
            for server in inspection.servers
        )
        or "-"
    )


def _parts(agent: CheckedAgent, inspection: Inspection) -> str:
    """What the served agent is called, where that is another name, and what it is made of."""
    others = [name for name in inspection.agents if name != inspection.served]
    parts = ", ".join(others)
    if inspection.served == agent.name:
        return parts or "-"
    return f"{inspection.served} ({parts})" if others else inspection.served


def _latency(up: bool | None, latency: float | None) -> str:
    if up is False:
        return "down"
    return "" if up is None or latency is None else f"{latency * 1000:.0f} ms"


class _Progress:
    """One line on stderr that says how far it is, where that is a terminal."""

    def __init__(self) -> None:
        self._wanted = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, done: int, every: int, names: tuple[str, ...]) -> None:
        """Write it over what it was."""
        if self._wanted and names:
            text = f"checking {counted(every, 'agent')}, {done} done: {', '.join(names)}"
            columns = _columns()
            click.echo(f"\r\x1b[K{text[: columns - 1]}", err=True, nl=False)

    def clear(self) -> None:
        """Remove it."""
        if self._wanted:
            click.echo("\r\x1b[K", err=True, nl=False)


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
