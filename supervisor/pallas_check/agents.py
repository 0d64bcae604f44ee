"""What an inspection says of an agent, as findings: each with its place, and in the words of a start.

Pure. What comes from the inspected process is its author's: bounded by its guard, checked here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_check.findings import CheckedAgent, Finding, worst
from pallas_common.problems import Problem, shortened
from pallas_common.protocol.inspection import Inspection, decode
from pallas_common.protocol.reports import FailedReport, StageReport, decode_report
from pallas_common.protocol.spec import EXIT_FAILURE, EXIT_OUT_OF_MEMORY
from pallas_common.secrets.patterns import redact
from pallas_common.terminal_text import terminal_line
from pallas_registry.deployment.dependencies import cycles
from pallas_supervisor.lifecycle.exits import describe_exit
from pallas_supervisor.lifecycle.states import OUT_OF_MEMORY, Exit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from pallas_check.findings import Cause, Level
    from pallas_check.places import Places
    from pallas_common.protocol.inspection import InspectedServer, InspectionEnd
    from pallas_common.secrets.values import KnownSecrets

MOST_MESSAGE = 2_000
"""Characters of one finding."""
MOST_OUTPUT_LINES = 10
"""Of what an agent has printed, the last ones."""
LONGEST_OUTPUT_LINE = 500

_IN_CODE = re.compile(
    r"(?P<file>[^\s:]{1,300}\.(?:py|md|markdown|ya?ml))(?::(?P<line>\d{1,9}))?: (?P<message>.*)", re.DOTALL
)
SEPARATOR = "__"
_LOCAL = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
SOURCE = ("module", "card")
"""The keys of an agent's entry that say where its code is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known beside an inspection."""

    directory: Path
    """The agents' working directory."""
    places: Places
    secrets: KnownSecrets
    ports: Mapping[int, str]
    """Of the deployment's own agents, with their names."""
    hosts: Collection[str]
    """By which they are reached."""
    answer_each_other: bool
    """Whether the deployment's agents should answer this check: they run, and their ports ask for no key."""
    online: bool
    """Whether servers and LLM providers were to be asked."""


def judge(
    name: str, end: InspectionEnd, timeout: float, around: Surroundings
) -> tuple[CheckedAgent, list[Finding]]:
    """What the end of an inspection says of an agent.

    Args:
        timeout: seconds that it was allowed.
    """
    inspection, failed, stage = _read(end)
    findings: list[Finding] = []
    if inspection is None or end.timed_out:
        inspection = None
        message = _failure(end, failed, stage, timeout)
        findings.append(_finding(name, message, around, keys=SOURCE, output=_output(end, around.secrets)))
    else:
        servers = tuple(
            replace(server, up=None, latency=None, trouble=None)
            if not around.answer_each_other and _agent_behind(server, around) is not None  # no more is known
            else server
            for server in inspection.servers
        )
        inspection = replace(inspection, servers=servers)
        findings += _degradations(name, inspection, around)
    result = worst(*(finding.level for finding in findings))
    return CheckedAgent(name=name, result=result, seconds=end.seconds, inspection=inspection), findings


def _read(end: InspectionEnd) -> tuple[Inspection | None, FailedReport | None, str | None]:
    """The inspection, or how it failed, and the newest stage; lines that are none of these are passed over."""
    inspection, failed, stage = None, None, None
    for line in end.lines.split("\n"):
        if not line:
            continue
        try:
            report = decode_report(line.encode())
        except ValueError:
            try:
                inspection = decode(Inspection, line.encode())
            except ValueError:
                continue
        else:
            if isinstance(report, FailedReport):
                failed = report
            elif isinstance(report, StageReport):
                stage = report.stage
    return inspection, failed, stage


def _failure(end: InspectionEnd, failed: FailedReport | None, stage: str | None, timeout: float) -> str:
    if end.timed_out:
        where = failed.message if failed is not None else _WHILE.get(stage or "", "it had not begun")
        return f"not ready within {timeout:g} s: {where}"
    if failed is not None:
        return failed.message
    reason = OUT_OF_MEMORY if end.status == EXIT_OUT_OF_MEMORY else None
    how = describe_exit(Exit(status=end.status, signal=end.signal, reason=reason))
    doing = _WHILE.get(stage or "", "it had not begun")
    if end.status is None:
        return f"its process ended ({how}): {doing}"
    search = (
        "closes descriptors that are not its own"
        if end.status == EXIT_FAILURE
        else "ends the process, such as os._exit"
    )
    return f"its process ended ({how}) without a message: {doing}; look for what {search}"


_WHILE = {"importing": "it was importing", "creating": "it was making its first instance"}


def _degradations(name: str, inspection: Inspection, around: Surroundings) -> list[Finding]:
    """What is wrong with an agent that can be started."""
    findings = [_finding(name, inspection.failure, around)] if inspection.failure else []
    findings += [
        _finding(name, warning, around, level="warning") for warning in dict.fromkeys(inspection.warnings)
    ]
    findings += [
        _finding(
            name,
            f"the name of the server {server.name} has `__`, which stands between a server's name and a tool's: two "
            "tools may come to have one name; give the server another one",
            around,
            level="warning",
        )
        for server in inspection.servers
        if SEPARATOR in server.name
    ]
    troubles = [(server.trouble, server.up) for server in inspection.servers]
    if not inspection.failure:  # which is why its provider is of no use
        troubles += [
            (provider.trouble, provider.up or not provider.counts) for provider in inspection.providers
        ]
    for trouble, usable in troubles:
        if trouble is not None:
            # What was to be asked and does not answer is what the question was about.
            level: Level = "error" if around.online and not usable else "warning"
            findings.append(_finding(name, trouble, around, level=level, cause="machine"))
    return findings


def circles(
    checked: Iterable[CheckedAgent], most: Mapping[str, int], around: Surroundings
) -> Iterator[Finding]:
    """Agents that have each other among their servers, so that a call can be handed round: one warning a circle.

    Args:
        most: how often a call may come back to each (`max_returns`).
    """
    asked: dict[str, list[str]] = {}
    for agent in checked:
        servers = agent.inspection.servers if agent.inspection is not None else ()
        asked[agent.name] = [
            found for server in servers if (found := _agent_behind(server, around)) is not None
        ]
    for circle in cycles(asked):
        path = " → ".join((*circle, circle[0]))
        times = ", ".join(f"{most[name]} to {name}" for name in circle)
        message = (
            f"these agents can hand a call round: {path}; it may come back so often (max_returns): {times}"
        )
        yield _finding(circle[0], message, around, level="warning")


def _agent_behind(server: InspectedServer, around: Surroundings) -> str | None:
    """The agent of this deployment that the server is."""
    if server.transport == "stdio":
        return None
    try:
        url = urlsplit(server.address)
        here = (url.hostname or "").lower() in {*_LOCAL, *around.hosts}
        return around.ports.get(url.port) if here and url.port is not None else None
    except ValueError:
        return None


def _finding(
    name: str,
    message: str,
    around: Surroundings,
    *,
    level: Level = "error",
    cause: Cause = "configuration",
    keys: tuple[str, ...] = (),
    output: str = "",
) -> Finding:
    """Where the message begins with a place in the agent's code, that is the place."""
    text = shortened(terminal_line(redact(around.secrets.strike(message))), MOST_MESSAGE)
    if (match := _IN_CODE.fullmatch(text)) is not None:
        line = int(match["line"]) if match["line"] else None
        problem = Problem(match["file"], line, f"agents.{name}", match["message"], "")
    else:
        problem = around.places.of_agent(name, keys, text)
    return Finding(problem=problem, level=level, cause=cause, agent=name, output=output)


def _output(end: InspectionEnd, secrets: KnownSecrets) -> str:
    """The last lines that it printed, without secrets."""
    text = redact(secrets.strike(end.output))
    lines = [line for line in text.splitlines() if line.strip()]
    shown = [shortened(line, LONGEST_OUTPUT_LINE) for line in lines[-MOST_OUTPUT_LINES:]]
    left_out = len(lines) - len(shown)
    if left_out or end.printed > len(end.output.encode()):
        shown.insert(0, f"… ({end.printed} bytes in all)")
    return "\n".join(shown)
