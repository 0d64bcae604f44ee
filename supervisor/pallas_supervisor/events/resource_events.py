"""What happens to declared resources, as events: an observer of each change, without anything that they say.

Knows the fields of these events, which clients read; decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pallas_registry.resources.model import Resource, ResourceId
    from pallas_registry.source import Configuration
    from pallas_supervisor.events.log import EventLog

RESOURCE = "resource"

ResourceCause = Literal["request", "reload"]
"""Whether somebody asked for the change, or files say something else."""


class ResourceEvents:
    """Tells the log what happens to resources."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def changed(self, before: Configuration, after: Configuration, cause: ResourceCause) -> None:
        """Another configuration has been taken on, whose resources may be the same."""
        old, new = before.assembly.kept, after.assembly.kept
        unreadable = {*old.problems, *new.problems}
        for id_ in sorted({*old.resources, *new.resources, *unreadable}):
            earlier, later = old.resources.get(id_), new.resources.get(id_)
            if later is None and id_ not in new.problems:
                self._tell(id_, "deleted", earlier, cause)
            elif earlier is None and id_ not in old.problems:
                self._tell(id_, "created", later, cause)
            elif not _is_same(earlier, later) or before.disabled.get(id_) != after.disabled.get(id_):
                self._tell(id_, "changed", later, cause)

    def _tell(self, id_: ResourceId, event: str, resource: Resource | None, cause: ResourceCause) -> None:
        metadata = None if resource is None else resource.metadata
        uid = None if metadata is None else metadata.uid
        self._log.add(RESOURCE, str(id_), event, uid=uid, cause=cause)


def _is_same(earlier: Resource | None, later: Resource | None) -> bool:
    if earlier is None or later is None:
        return earlier is later
    return earlier is later or (earlier == later and earlier.metadata == later.metadata)
