"""With which configuration each worker was started, and what the files say differently by now.

Knows the files through `source` and `fingerprints`; what a reload makes of it is in `plan` and `agents.changes.reload`.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallas_common.problems import ConfigurationError
from pallas_common.terminal_text import terminal_line
from pallas_registry.environment.dotenv import DOTENV
from pallas_registry.fastagent_files.models import FILE_NAME
from pallas_registry.fastagent_files.paths import HOME_VARIABLE
from pallas_registry.resources.model import ResourceId
from pallas_supervisor.reload.code import LoadedCode
from pallas_supervisor.reload.fingerprints import Fingerprints
from pallas_supervisor.reload.plan import needs_process
from pallas_supervisor.reload.source import without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.problems import Problem
    from pallas_registry.deployment.model import Deployment
    from pallas_registry.source import Configuration
    from pallas_supervisor.reload.fingerprints import Fingerprint
    from pallas_supervisor.reload.source import Source


@dataclass(frozen=True, slots=True)
class Origin:
    """What one worker was started with. The configuration is shared by all that were started with it."""

    configuration: Configuration
    files: Mapping[Path, Fingerprint]
    """What fast-agent reads in the worker itself, taken just before it did."""


class Drift:
    """The origin of every worker, and how the files differ from it.

    Args:
        taken: the configuration that the supervisor goes by.
    """

    def __init__(self, source: Source, taken: Configuration) -> None:
        self.source = source
        self.taken = taken
        self.code = LoadedCode(source.directory)
        self._fingerprints = Fingerprints()
        self._origins: dict[str, dict[int, Origin]] = {}
        self._turn = asyncio.Lock()
        self._seen: Mapping[Path, Fingerprint] = {}
        """Of all files, at the last look."""
        self._read_at: tuple[object, ...] | None = None
        self._newest: Configuration | None = taken
        self._problems: tuple[Problem, ...] = ()

    @property
    def deployment(self) -> Deployment:
        """The deployment that the supervisor goes by."""
        return self.taken.deployment

    def configuration_changed(self, old: Configuration, new: Configuration) -> None:
        """The supervisor goes by another configuration."""
        self.taken = new
        if self._newest is old:
            self._newest = new
        # Or else each change of a resource would leave a configuration behind, for as long as any worker goes on.
        if old.dotenv == new.dotenv and old.settings == new.settings:
            for name, origins in self._origins.items():
                for generation, origin in origins.items():
                    same = origin.configuration is old
                    if same and not needs_process(old.deployment, new.deployment, name):
                        origins[generation] = replace(origin, configuration=new)

    def fingerprints(self, name: str) -> Mapping[Path, Fingerprint]:
        """Of what fast-agent would read now in a worker of this agent. Reads files: not for the event loop."""
        own = self.taken.deployment.agents[name].env
        files = self.source.worker_files(own.get(HOME_VARIABLE, os.environ.get(HOME_VARIABLE)))
        return {file: self._fingerprints.of(file) for file in files}

    def record(self, name: str, generation: int, files: Mapping[Path, Fingerprint], *, serving: int) -> None:
        """Remember what the worker that is about to be started is given.

        Args:
            files: its `fingerprints`, taken before it reads any of them.
            serving: the generation that serves until then, or the same; all others are forgotten.
        """
        origin = Origin(self.taken, files)
        before = self._origins.get(name, {}).get(serving)
        kept = {} if before is None else {serving: before}
        self._origins[name] = {**kept, generation: origin}
        self.code.keep_only(name, {serving, generation})

    def agent_removed(self, name: str) -> None:
        """Drop what is known of the agent's workers."""
        self._origins.pop(name, None)
        self.code.agent_removed(name)

    async def look(self) -> None:
        """See what the files say now. Reads only what has changed since the last look."""
        async with self._turn:
            before = without(os.environ, self.taken.dotenv)
            await asyncio.to_thread(self._look, before, anew=False)

    async def read(self) -> Configuration:
        """The configuration as the files say it now.

        Raises:
            ConfigurationError: it cannot be used; all problems of all files.
        """
        async with self._turn:
            before = without(os.environ, self.taken.dotenv)
            await asyncio.to_thread(self._look, before, anew=True)
            if self._newest is None:
                raise ConfigurationError(self._problems)
            return self._newest

    def _look(self, environ: Mapping[str, str], *, anew: bool) -> None:
        self.code.look()
        own = self.source.own_files({**environ, **self.taken.dotenv})
        files = set(own)
        for origins in list(self._origins.values()):
            for origin in list(origins.values()):
                files.update(origin.files)
        # Before the files are read: what changes meanwhile has changed since.
        self._seen = {file: self._fingerprints.of(file) for file in files}
        resources = self.source.resources.marks(self.taken.state_directory)
        now = (*(self._seen[file] for file in own), resources)
        if now == self._read_at and not anew:
            return
        self._read_at = now
        try:
            newest = self.source.read(environ)
            # One object for what says the same makes comparing the workers' origins with it cheap.
            # Not for a reload: lines may have moved, which tell where each value stands and compare as equal.
            self._newest, self._problems = self.taken if newest == self.taken and not anew else newest, ()
        except ConfigurationError as error:
            self._newest, self._problems = None, error.problems
            if any(problem.line is None for problem in error.problems):
                self._read_at = None  # that may not be the files' fault, and pass by itself

    def stale_files(self, name: str, generation: int) -> tuple[str, ...]:
        """The files that say something else for this worker now than at its start, by the last look.

        Where the files cannot be used, the configuration in effect is compared instead.
        """
        origin = self._origins.get(name, {}).get(generation)
        if origin is None:
            return ()
        newest = self._newest or self.taken
        differing = []
        if (given := origin.configuration) is not newest:
            variables = given.dotenv != newest.dotenv
            said = {
                self._declaration(name, given): needs_process(given.deployment, newest.deployment, name),
                DOTENV: variables,
                # Or else it may only be a variable that the file names.
                self._settings_label(newest, given): not variables and given.settings != newest.settings,
            }
            differing = [label for label, differs in said.items() if differs]
        differing += [
            self.source.label(file)
            for file, fingerprint in origin.files.items()
            if self._seen.get(file, fingerprint) != fingerprint
        ]
        return tuple(dict.fromkeys(differing))

    def _declaration(self, name: str, given: Configuration) -> str:
        """What people call the place where the agent is declared."""
        if given.deployment.agents[name].definition is not None:
            return str(ResourceId("agent", name))
        return self.source.label(self.source.path)

    def _settings_label(self, *configurations: Configuration) -> str:
        """What the file with fast-agent's settings is called: in the newest of the configurations that has one."""
        files = (configuration.settings.file for configuration in configurations)
        file = next((file for file in files if file is not None), None)
        return FILE_NAME if file is None else self.source.label(file)

    def changed_code(self, name: str, generation: int) -> tuple[str, ...]:
        """The source files that are not what this worker has loaded any more, by the last look."""
        return tuple(terminal_line(path) for path in self.code.changed(name, generation))

    def document(self) -> dict[str, Any]:
        """What of the files the supervisor has not taken over yet, and why it could not, by the last look."""
        if self._newest is None:
            changed = [self.source.label(Path(problem.file)) for problem in self._problems]
        else:
            newest, taken = self._newest, self.taken
            variables = newest.dotenv != taken.dotenv
            said = {
                self.source.label(self.source.path): newest.base != taken.base,
                **dict.fromkeys(map(str, _differing(newest, taken)), True),
                DOTENV: variables,
                self._settings_label(newest, taken): not variables and newest.settings != taken.settings,
            }
            changed = [label for label, differs in said.items() if differs]
        return {"changed": list(dict.fromkeys(changed)), "problems": len(self._problems)}


def _differing(one: Configuration, other: Configuration) -> list[ResourceId]:
    """The resources of which the two do not say the same."""
    ours, theirs = one.assembly.kept, other.assembly.kept
    return sorted(
        each
        for each in {*ours.resources, *theirs.resources, *ours.problems, *theirs.problems}
        if ours.resources.get(each) != theirs.resources.get(each)
        or ours.problems.get(each) != theirs.problems.get(each)
    )
