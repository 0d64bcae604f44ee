"""Resources that are applied and deleted: computed, written down, and the agents moved. What the control API calls.

Computing is the registry's `changes`, in a thread; writing is `writing`'s; agents move as they do in a reload. What
agents.yaml says counts as it was last taken over.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.times import ago
from pallas_registry.configured_secrets import values_of
from pallas_registry.resources.changes import Change, plan_apply, plan_deletion
from pallas_registry.resources.model import ResourceSet
from pallas_supervisor.agents.changes.writing import keep
from pallas_supervisor.agents.errors import NotKeptError, RefusedError
from pallas_supervisor.reload.plan import plan_reload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pallas_common.secrets.values import KnownSecrets
    from pallas_registry.resources.assembly import Assembly
    from pallas_registry.resources.changes import AppliedFile, Changes
    from pallas_registry.resources.model import Network, ResourceId
    from pallas_registry.source import Configuration
    from pallas_supervisor.agents.changes.moving import Moving
    from pallas_supervisor.reload.drift import Drift
    from pallas_supervisor.reload.plan import Plan

MOST_LOGGED = 20
"""Resources that the log names of one change."""

_log = get_logger("pallas.supervisor.resources")


class Applying:
    """Takes on changed resources, one request at a time."""

    def __init__(self, drift: Drift, moving: Moving, known_secrets: KnownSecrets) -> None:
        self._drift = drift
        self._moving = moving
        self._known_secrets = known_secrets

    async def apply(
        self,
        files: Sequence[AppliedFile],
        owner: str,
        *,
        network: Network = "open",
        dry_run: bool = False,
        prune: bool = False,
    ) -> Changes:
        """Take on what these files say; each of them whole or not at all.

        Args:
            owner: whose the resources are that are new.
            network: whether they may lead to this machine.
            dry_run: say what would be done, and do nothing.
            prune: remove all that is in none of the files.

        Raises:
            RefusedError: nothing can be applied in this situation.
            NotKeptError: it cannot be written; nothing was changed.
            PortsTakenError: a new port is taken; nothing was changed.
        """
        change = _change(owner, network)
        return await self._take_on(
            lambda before: plan_apply(files, before, change, prune=prune), dry_run=dry_run
        )

    async def delete(
        self,
        resources: Sequence[ResourceId],
        owner: str,
        versions: Mapping[ResourceId, str] | None = None,
        *,
        dry_run: bool = False,
    ) -> Changes:
        """Delete resources; raises as `apply` does.

        Args:
            versions: the `resourceVersion` of those that are only to be deleted if they still have it.
            dry_run: say what would be done, and do nothing.
        """
        change = _change(owner)
        return await self._take_on(
            lambda before: plan_deletion(resources, before, change, versions), dry_run=dry_run
        )

    async def _take_on(self, compute: Callable[[Assembly], Changes], *, dry_run: bool = False) -> Changes:
        if self._drift.source.only is not None:
            raise RefusedError("one agent runs alone here: run `pallas` without --agent to change resources")
        async with self._moving.turn:
            before = self._drift.taken
            changes, newest, plan = await asyncio.to_thread(self._compute, compute, before)
            if dry_run or not (changes.put or changes.gone):
                return changes
            self._moving.refuse_undead(plan)
            with self._moving.around():
                await self._moving.move(plan, newest, lambda: self._keep(changes, newest))
            _log.info(f"taken over: {_said(changes)}")
            return changes

    def _compute(
        self, compute: Callable[[Assembly], Changes], before: Configuration
    ) -> tuple[Changes, Configuration, Plan]:
        changes = compute(before.assembly)
        self._known_secrets.add(values_of(ResourceSet(changes.put)))
        newest = before.with_resources(changes.after)
        return changes, newest, plan_reload(before.deployment, newest.deployment)

    async def _keep(self, changes: Changes, newest: Configuration) -> None:
        if (directory := newest.state_directory) is None:
            raise NotKeptError(
                "this user has no home directory to keep resources in; nothing was changed: set PALLAS_STATE_DIR to a "
                "directory, and start Pallas again"
            )
        await asyncio.to_thread(keep, directory, changes.put, changes.gone, newest.assembly.kept.key)
        await asyncio.to_thread(self._drift.source.resources.learn, directory, changes.put)


def _change(owner: str, network: Network = "open") -> Change:
    return Change(owner, ago(), lambda: str(uuid.uuid4()), network)


def _said(changes: Changes) -> str:
    done = [
        f"{each.resource} {each.word}"
        for each in changes.outcomes
        if each.word not in ("refused", "unchanged", "missing")
    ]
    more = f" and {len(done) - MOST_LOGGED} more" if len(done) > MOST_LOGGED else ""
    return ", ".join(done[:MOST_LOGGED]) + more
