"""A check from beginning to end: the files, then at the same time this machine and each agent's code.

Knows the order of things, and how many agents are tried at a time. Where the files are wrong, nothing else is looked
at, as at a start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pallas_check.agents import SOURCE, Surroundings, circles, judge
from pallas_check.findings import CheckedAgent, CheckReport, Finding, worst
from pallas_check.inspectors import Inspector, InspectorError
from pallas_check.machine import machine_findings
from pallas_check.places import Places
from pallas_check.preload import preload_findings
from pallas_check.sampling import MOST_DECLARED, sample
from pallas_common import __version__
from pallas_common.http.hosts import served_hosts
from pallas_common.problems import ConfigurationError, Problem, collect, counted, no_such_agent, shortened
from pallas_common.protocol.inspection import InspectionOrder
from pallas_common.secrets.values import KnownSecrets
from pallas_registry.configured_secrets import configured_secrets, values_of
from pallas_registry.deployment.location import deployment_path
from pallas_registry.environment.dotenv import load_dotenv, worker_environment
from pallas_registry.resources.references import is_closed
from pallas_registry.source import read_start
from pallas_supervisor.agents.worker_spec import worker_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from pallas_registry.deployment.model import Agent
    from pallas_registry.resources.model import ResourceSet
    from pallas_registry.source import Configuration

    type Progress = Callable[[int, int, tuple[str, ...]], None]
    """Called with the number of agents that are done, of all, and the names of those at work."""

Mode = Literal["offline", "local", "online"]
"""The files alone; agents' code as well; servers and LLM providers as well."""

LONGEST = 60.0
"""Seconds that an agent gets at most, unless more is asked for, whatever its start_timeout is."""

MOST_NAMED = 5
"""Agents that are not tried that a warning names."""
LONGEST_LIST = 1_000
"""Characters of a message that lists all agents."""

_NO_PALLAS = re.compile(r"No module named '?pallas_")


def read_files(
    directory: Path, file: Path | None, environ: Mapping[str, str]
) -> tuple[CheckReport, Configuration | None, dict[str, str]]:
    """What the files say: a report, the configuration if they can be used, and the environment of a supervisor.

    Args:
        directory: the agents' working directory.
        file: path of `agents.yaml`; None: where the environment or `.env` says, else in `directory`.
    """
    try:
        configuration, credentials = read_start(directory, environ, file)
    except ConfigurationError as error:
        dotenv = collect(lambda: load_dotenv(directory, environ), []) or {}
        path = file or deployment_path({**environ, **dotenv})
        findings = tuple(Finding(problem=problem) for problem in error.found)
        return CheckReport(path=path, deployment=None, findings=findings), None, {}
    together = {**environ, **credentials, **configuration.dotenv}
    gateway = configuration.deployment.gateway
    report = CheckReport(
        path=file or deployment_path(together),
        deployment=configuration.deployment.name,
        gateway=None if gateway is None else f"{gateway.public_url}/mcp",
        open_network=() if gateway is None else tuple(_open_network(configuration.resources)),
        names=tuple(configuration.deployment.agents),
        findings=(
            *(Finding(problem=problem, level="warning") for problem in configuration.warnings),
            *_resources(configuration),
            *preload_findings(configuration.deployment, file or deployment_path(together), directory),
        ),
    )
    return report, configuration, together


def _open_network(resources: ResourceSet) -> Iterator[str]:
    for id_, resource in resources.items():
        if id_.kind in ("llm", "server") and "url" in resource.spec and not is_closed(resource, resources):
            yield str(id_)


def _resources(configuration: Configuration) -> Iterator[Finding]:
    """Resources that are left out. With a name that is in `agents.yaml` as well, a reload is refused."""
    doubles = configuration.assembly.doubles
    for problems in configuration.disabled.values():
        for problem in problems:
            yield Finding(problem=problem, level="error" if problem in doubles else "warning")


async def check(
    directory: Path,
    file: Path | None,
    environ: Mapping[str, str],
    *,
    mode: Mode,
    timeout: float | None = None,
    agents: Collection[str] = (),
    progress: Progress = lambda _done, _all, _names: None,
) -> CheckReport:
    """Check a deployment.

    Args:
        directory, file: see `read_files`.
        environ: the environment, without what `.env` adds.
        timeout: seconds for each agent; None: its start_timeout, at most `LONGEST`.
        agents: those whose code is to be tried; none: all, as `sampling` says it.
    """
    report, configuration, together = read_files(directory, file, environ)
    if configuration is None or mode == "offline":
        return report
    deployment = configuration.deployment
    if unknown := sorted(set(agents) - deployment.agents.keys()):
        problem = Problem(
            str(report.path), None, "", shortened(no_such_agent(unknown, deployment.agents), LONGEST_LIST), ""
        )
        return replace(report, findings=(*report.findings, Finding(problem=problem)))
    tried, left_out = sample(deployment.agents, agents)
    places = Places(report.path)
    machine, is_running = await asyncio.to_thread(
        machine_findings, configuration.deployment, directory, together, places
    )
    around = Surroundings(
        directory=directory,
        places=places,
        secrets=KnownSecrets([*configured_secrets(directory, together), *values_of(configuration.resources)]),
        ports={agent.port: agent.name for agent in deployment.agents.values() if agent.port},
        hosts=_hosts(configuration),
        answer_each_other=is_running and not deployment.workers_behind,
        online=mode == "online",
    )
    agents_tried = [deployment.agents[name] for name in tried]
    checking = _Checking(configuration, agents_tried, together, around, timeout, progress)
    trials = await checking.run()
    found = [finding for trial in trials for finding in trial.findings]
    checked = tuple(
        replace(
            trial.checked,
            # A port that is taken is in the way of its start, too.
            result=worst(
                trial.checked.result,
                *(f.level for f in (*trial.findings, *machine) if f.agent == trial.checked.name),
            ),
            alike=tried[trial.checked.name],
        )
        for trial in trials
    )
    most_returns = {name: agent.max_returns for name, agent in deployment.agents.items()}
    round_trips = circles(checked, most_returns, around)
    return replace(
        report,
        agents=checked,
        not_tried=left_out,
        findings=(*report.findings, *machine, *found, *round_trips, *_left_out(left_out)),
    )


def _left_out(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        such = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
        message = (
            f"{counted(len(names), 'declared agent')} ({such}) not tried: there are more than {MOST_DECLARED} "
            "that differ in model, servers or interpreter"
        )
        yield Finding(problem=Problem("", None, "", message, "try them with --agent NAME"), level="warning")


def _hosts(configuration: Configuration) -> tuple[str, ...]:
    deployment = configuration.deployment
    return served_hosts(deployment.host, deployment.hosts, deployment.bind)


@dataclass(frozen=True, slots=True)
class _Checked:
    checked: CheckedAgent
    findings: list[Finding]


class _Checking:
    """The inspections of one check."""

    def __init__(
        self,
        configuration: Configuration,
        agents: Sequence[Agent],
        environ: Mapping[str, str],
        around: Surroundings,
        timeout: float | None,
        progress: Progress,
    ) -> None:
        self._configuration = configuration
        self._agents = agents
        self._environ = environ
        self._around = around
        self._timeout = timeout
        self._progress = progress
        self._running: dict[str, None] = {}
        self._done = 0
        self._broken = False
        """Whether our own interpreter's inspector failed, which is said once."""

    async def run(self) -> list[_Checked]:
        """Inspect the agents, so many at a time as there are processors; in their order."""
        turns = asyncio.Semaphore(os.process_cpu_count() or 1)
        async with contextlib.AsyncExitStack() as stack:
            inspectors: dict[str | None, Inspector | OSError] = {}
            for python in dict.fromkeys(agent.python for agent in self._agents):
                inspector = Inspector(python or sys.executable, worker_environment(self._environ, {}))
                try:
                    inspectors[python] = await stack.enter_async_context(inspector)
                except OSError as error:
                    inspectors[python] = error
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._check(agent, inspectors[agent.python], turns))
                    for agent in self._agents
                ]
            return [task.result() for task in tasks]

    async def _check(
        self, agent: Agent, inspector: Inspector | OSError, turns: asyncio.Semaphore
    ) -> _Checked:
        async with turns:
            self._running[agent.name] = None
            self._tell()
            try:
                if isinstance(inspector, OSError):
                    return self._without_inspector(agent, InspectorError(f"cannot be started: {inspector}"))
                return await self._inspect(agent, inspector)
            finally:
                del self._running[agent.name]
                self._done += 1
                self._tell()

    async def _inspect(self, agent: Agent, inspector: Inspector) -> _Checked:
        timeout = self._timeout or min(agent.start_timeout, LONGEST)
        spec = worker_spec(
            self._configuration,
            name=agent.name,
            generation=0,
            environ=self._environ,
            directory=str(self._around.directory.absolute()),
            metrics=("", ""),
        )
        self._around.secrets.add(configured_secrets(self._around.directory, spec.environment))
        order = InspectionOrder(depth="online" if self._around.online else "local", timeout=timeout)
        try:
            version = await inspector.version()
        except InspectorError as error:
            return self._without_inspector(agent, error)
        try:
            end = await inspector.inspect(spec, order)
        except InspectorError as error:
            return self._not_inspected(agent, error)
        checked, findings = judge(agent.name, end, timeout, self._around)
        if version != __version__:
            what = f"its interpreter has Pallas {version}, and this is {__version__}"
            problem = self._around.places.of_agent(agent.name, ("python",), what, "install the same version")
            findings.append(Finding(problem=problem, level="warning", agent=agent.name))
        return _Checked(checked, findings)

    def _not_inspected(self, agent: Agent, error: InspectorError) -> _Checked:
        """What to say of an agent whose guard has not told how it ended: only the agent's own code is near it."""
        remedy = "look in its code for what kills or stops processes that are not its own"
        problem = self._around.places.of_agent(agent.name, SOURCE, str(error), remedy)
        checked = CheckedAgent(name=agent.name, result="error", seconds=0.0, inspection=None)
        return _Checked(checked, [Finding(problem=problem, agent=agent.name)])

    def _without_inspector(self, agent: Agent, error: InspectorError) -> _Checked:
        """What to say of an agent in whose interpreter nothing can be tried."""
        places, printed = self._around.places, error.output
        said = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
        what = f"{error}: {shortened(self._around.secrets.strike(said), 500)}" if said else str(error)
        if agent.python is None:  # the one in which this runs, so that it is no single agent's
            what = f"the worker of Pallas itself: {what}"
            problem = Problem("", None, "", what, "see whether all of pallas-mcp is installed")
        elif _NO_PALLAS.search(printed):
            what = f"there is no Pallas in the environment of {agent.python}"
            problem = places.of_agent(
                agent.name, ("python",), what, f"install pallas-mcp {__version__} there"
            )
        else:
            problem = places.of_agent(agent.name, ("python",), what)
        findings = []
        if agent.python is not None or not self._broken:
            findings = [Finding(problem=problem, agent=agent.name if agent.python is not None else None)]
        self._broken = self._broken or agent.python is None
        checked = CheckedAgent(name=agent.name, result="error", seconds=0.0, inspection=None)
        return _Checked(checked, findings)

    def _tell(self) -> None:
        self._progress(self._done, len(self._agents), tuple(self._running))
