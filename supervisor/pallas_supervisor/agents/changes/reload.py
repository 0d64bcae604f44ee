"""Reload: read all files again and move only what they changed. What the control API and SIGHUP call."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.problems import ConfigurationError
from pallas_registry.configured_secrets import secrets_of, values_of
from pallas_registry.environment.dotenv import DOTENV
from pallas_supervisor.agents.errors import RefusedError
from pallas_supervisor.lifecycle.states import State
from pallas_supervisor.reload.plan import FIXED_VARIABLES, Plan, plan_reload

if TYPE_CHECKING:
    from collections.abc import Callable

    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.changes.moving import Moving
    from pallas_supervisor.agents.engine import Engine
    from pallas_supervisor.lifecycle.states import Agent
    from pallas_supervisor.reload.drift import Drift

_log = get_logger("pallas.supervisor.reloading")

UNTOUCHED = frozenset({State.STOPPED, State.IDLE, State.WAITING})
"""States without a process, from which the next start takes the newest configuration anyway."""


class Reloading:
    """Takes on changed files."""

    def __init__(self, engine: Engine, drift: Drift, moving: Moving, known_secrets: KnownSecrets) -> None:
        self._engine = engine
        self._drift = drift
        self._moving = moving
        self._known_secrets = known_secrets
        self._asked = False
        self._answering: set[asyncio.Task[None]] = set()

    def ask(self) -> None:
        """Reload in the background, as SIGHUP wants; only the log tells how it went.

        One that waits for its turn will read what the files say then: it answers for all that ask meanwhile.
        """
        if self._asked:
            return
        self._asked = True
        task = asyncio.create_task(self._answer(), name="reload")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self) -> None:
        async with self._moving.turn:
            self._asked = False
            try:
                await self._reload(dry_run=False)
            except ConfigurationError:
                pass  # has been logged already
            except Exception as error:  # noqa: BLE001 - a failed reload must not take the supervisor down
                _log.error(f"cannot reload: {error}")

    async def reload(self, *, dry_run: bool) -> Plan:
        """Read the configuration again and move only what it changed; on any error nothing has changed.

        Raises:
            ConfigurationError: the files cannot be used.
            RefusedError: a field changed that a running supervisor cannot change.
            PortsTakenError: a new port is taken.
        """
        async with self._moving.turn:
            return await self._reload(dry_run=dry_run)

    async def _reload(self, *, dry_run: bool) -> Plan:
        with nullcontext() if dry_run else self._moving.around():
            return await self._take(dry_run=dry_run)

    async def _take(self, *, dry_run: bool) -> Plan:
        try:
            newest = await self._read()
        except ConfigurationError as error:
            if not dry_run:
                for problem in error.problems:
                    _log.error(str(problem))
                _log.error("the configuration cannot be used; nothing was changed")
            raise
        before = self._drift.taken
        plan = plan_reload(
            before.deployment,
            newest.deployment,
            self._of_workers(self._drift.stale_files),
            self._of_workers(self._drift.changed_code),
        )
        self._refuse_fixed(plan, newest)
        self._moving.refuse_undead(plan)
        if dry_run:
            return plan
        await self._moving.move(plan, newest)
        for warning in newest.warnings:
            _log.warning(str(warning))
        log_disabled(newest)
        _log.info(
            f"reloaded: {len(plan.added)} added, {len(plan.removed)} removed, {len(plan.changed)} changed, "
            f"{len(plan.unchanged)} unchanged"
            + ("" if plan.gateway is None else f"; gateway {plan.gateway.kind}")
        )
        return plan

    async def _read(self) -> Configuration:
        newest = await self._drift.read()
        self._known_secrets.add(values_of(newest.resources))
        self._known_secrets.add(secrets_of(newest.deployment))
        if newest.assembly.doubles:  # which of the two is meant, nobody can know
            raise ConfigurationError(newest.assembly.doubles)
        return newest

    def _of_workers(self, files: Callable[[str, int], tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The files of every agent that has to do something about it: not if its replacement is on its way."""
        return {
            name: files(name, upcoming(agent))
            for name, agent in self._engine.agents.items()
            if agent.state not in UNTOUCHED and agent.replace is None
        }

    def _refuse_fixed(self, plan: Plan, newest: Configuration) -> None:
        before, after = self._drift.taken.dotenv, newest.dotenv
        variables = [name for name in FIXED_VARIABLES if before.get(name) != after.get(name)]
        if fixed := [*plan.fixed, *(f"{name} ({DOTENV})" for name in variables)]:
            fields = " and ".join(fixed)
            raise RefusedError(
                f"{fields} changed, which needs a restart of the supervisor; nothing was changed: `pallas check` says "
                "whether it would start again"
            )


def upcoming(agent: Agent) -> int:
    """The generation that serves once a replacement under way has succeeded."""
    return agent.last_generation if agent.is_replacing else agent.generation


def log_disabled(configuration: Configuration) -> None:
    """Log what is wrong with resources that cannot be used."""
    for resource, problems in configuration.disabled.items():
        for problem in problems:
            _log.error(f"{resource} is left out: {problem}")
