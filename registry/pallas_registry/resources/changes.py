"""What an apply or a deletion does to the resources of a deployment. Pure: computes, and changes nothing.

A file is taken as a whole or not at all. What it says is held against everything that there will be: references may go
across the files of one apply, and nothing that works may stop working by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from pallas_common.problems import Problem, quoted
from pallas_registry.resources.assembly import Assembly, assemble
from pallas_registry.resources.model import (
    LEFT_WITH_ITS_FILE,
    WITH_NETWORK,
    Metadata,
    Resource,
    ResourceId,
)
from pallas_registry.resources.references import references_of, without
from pallas_registry.resources.secret_values import with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pallas_registry.resources.model import Network

Word = Literal["created", "configured", "unchanged", "pruned", "deleted", "refused", "missing"]
"""`missing`: was to be deleted, and is not there."""

Reason = Literal["invalid", "conflict"]
"""Why something is refused: by what it says, or by what is there."""

OF_WHAT_IS_GONE = "made anew: uid, version and times of the one that is gone are passed over"

ABSENT = ""
"""In place of a `resourceVersion`: the resource is only to be created."""

_MOST_NAMED = 5
"""Fields that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFile:
    """One file of an apply, as it was read."""

    name: str
    resources: tuple[Resource, ...] = ()
    problems: tuple[Problem, ...] = ()
    versions: Mapping[ResourceId, str] = field(default_factory=dict)
    """The `resourceVersion` of those that are only to be changed if they still have it."""
    is_conditional: bool = False
    """Whether the versions are a condition of the request, and not what documents say of themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of one resource."""

    resource: ResourceId
    word: Word
    file: str = ""
    note: str = ""
    """What has been passed over."""
    problems: tuple[Problem, ...] = ()
    reason: Reason = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be done."""

    outcomes: tuple[Outcome, ...]
    problems: tuple[Problem, ...]
    """Of files, where it is not known of which resource."""
    put: tuple[Resource, ...]
    """To be written; referred or not, in no order."""
    gone: tuple[ResourceId, ...]
    """To be removed."""
    after: Assembly
    """What there will be."""


class Change(NamedTuple):
    """By whom and when something is changed."""

    owner: str
    now: str
    """RFC 3339."""
    new_uid: Callable[[], str]
    network: Network = "open"
    """Whether who changes it may say that something leads to this machine."""


class _Refusal(NamedTuple):
    problem: Problem
    reason: Reason = "invalid"


def plan_apply(
    files: Sequence[AppliedFile], before: Assembly, change: Change, *, prune: bool = False
) -> Changes:
    """What applying these files does.

    Args:
        before: what there is.
        prune: whether everything goes that is in none of the files; nothing does where a file is refused.
    """
    return _Apply(files, before, change, prune=prune).plan()


def plan_deletion(
    wanted: Iterable[ResourceId],
    before: Assembly,
    change: Change,
    versions: Mapping[ResourceId, str] | None = None,
) -> Changes:
    """What deleting resources does: a project leaves its agents, anything else stays while others use it that stay.

    Those that are refused stay, and all others go.

    Args:
        versions: the `resourceVersion` of those that are only to be deleted if they still have it.
    """
    there = before.kept.resources
    versions = versions or {}
    found = {each: _reason_to_keep(each, before, versions.get(each)) for each in dict.fromkeys(wanted)}
    left, used = without([each for each, outcome in found.items() if outcome is None], there)
    outcomes, gone = [], []
    for resource, outcome in found.items():
        if outcome is not None:
            outcomes.append(outcome)
        elif (problem := used.get(resource)) is not None:
            outcomes.append(_kept(resource, problem))
        else:
            outcomes.append(Outcome(resource=resource, word="deleted"))
            gone.append(resource)
    put = tuple(_changed(each, there[each.id], change) for each in left.values() if each != there[each.id])
    outcomes += (Outcome(resource=each.id, word="configured") for each in put)
    return Changes(
        outcomes=tuple(outcomes),
        problems=(),
        put=put,
        gone=tuple(gone),
        after=_after(before, put, gone) if gone else before,
    )


def _reason_to_keep(resource: ResourceId, before: Assembly, version: str | None) -> Outcome | None:
    """What to say of a resource that cannot be deleted, whoever uses it; None if it can."""
    there = before.kept.resources.get(resource)
    if (where := declared_in_file(resource, before)) is not None:
        return _kept(resource, where)
    if there is None and resource not in before.kept.problems:
        message = f"there is no {resource.kind} {quoted(resource.name)}"
        problem = Problem(
            "", None, "", message, f"`pallasctl get {resource.kind}s` lists those that there are"
        )
        return Outcome(resource=resource, word="missing", problems=(problem,))
    if version is not None and there is not None and version != there.resource_version:
        message = f"has been changed since: the version is {there.resource_version} now"
        remedy = f"look at it again (`pallasctl get {' '.join(resource)} -o yaml`)"
        return _kept(resource, Problem(str(resource), None, "metadata.resourceVersion", message, remedy))
    return None


def _kept(resource: ResourceId, problem: Problem) -> Outcome:
    return Outcome(resource=resource, word="refused", problems=(problem,), reason="conflict")


def declared_in_file(resource: ResourceId, before: Assembly) -> Problem | None:
    """Why an agent of `agents.yaml` cannot be changed here, and where it can; None for everything else."""
    agent = before.base.agents.get(resource.name) if resource.kind == "agent" else None
    if agent is None:
        return None
    file = before.base.path
    line = f", line {agent.line}" if agent.line else ""
    return Problem(
        str(file),
        agent.line,
        f"agents.{agent.name}",
        f"{resource} is declared in {file.name}",
        f"edit {file}{line}, and run `pallasctl reload`; or choose another name",
    )


class _Apply:
    """Files are known by their index: two may have the same name."""

    def __init__(
        self, files: Sequence[AppliedFile], before: Assembly, change: Change, *, prune: bool
    ) -> None:
        self._files = files
        self._before = before
        self._there = before.kept.resources
        self._change = change
        self._prune = prune
        self._file_of: dict[ResourceId, int] = {}
        self._taken: dict[ResourceId, Resource] = {}
        """As they would be kept."""
        self._refusals: dict[tuple[int, ResourceId], list[_Refusal]] = {}
        self._copies: set[ResourceId] = set()
        """Those of what is gone."""
        self._refused = {index for index, file in enumerate(files) if file.problems}

    def plan(self) -> Changes:
        for index, file in enumerate(self._files):
            for resource in file.resources:
                self._look_at(index, file, resource)
        while True:
            accepted = {
                id_: each for id_, each in self._taken.items() if self._file_of[id_] not in self._refused
            }
            put = {id_: each for id_, each in accepted.items() if self._differs(each)}
            gone = self._pruned() if self._prune and not self._refused else []
            after = _after(self._before, put.values(), gone) if put or gone else self._before
            if not self._refuse_broken(after, accepted, put, gone):
                break
        outcomes = [*self._outcomes(put), *(Outcome(resource=each, word="pruned") for each in gone)]
        return Changes(
            outcomes=tuple(outcomes),
            problems=tuple(problem for file in self._files for problem in file.problems),
            put=tuple(put.values()),
            gone=tuple(gone),
            after=after,
        )

    def _look_at(self, index: int, file: AppliedFile, resource: Resource) -> None:
        """Note the resource as it would be kept, or why it cannot be taken, whatever else there is."""
        first = self._file_of.setdefault(resource.id, index)
        taken = resource
        if resource.id in self._taken or (first, resource.id) in self._refusals:
            message = f"{resource.id} is given twice, first in {self._files[first].name}"
            self._refuse(index, resource, _of(resource, "metadata.name", message, "keep one of the two"))
            return
        if (where := declared_in_file(resource.id, self._before)) is not None:
            problem = _of(resource, "metadata.name", f"{where.message}:{where.line or 1}", where.remedy)
            self._refuse(index, resource, problem, "conflict")
        if resource.id.kind == "secret":
            taken, problems = with_values(resource, self._there.get(resource.id), self._before.kept.digest)
            for problem in problems:
                self._refuse(index, resource, problem, "conflict")
        if self._is_copy(file, taken):
            self._copies.add(resource.id)
        elif (outdated := self._outdated(taken, file.versions.get(resource.id))) is not None:
            self._refuse(index, resource, outdated, "conflict")
        self._taken[resource.id] = self._stamped(taken)

    def _refuse(self, index: int, resource: Resource, problem: Problem, reason: Reason = "invalid") -> None:
        self._refused.add(index)
        self._refusals.setdefault((index, resource.id), []).append(_Refusal(problem, reason))

    def _outdated(self, resource: Resource, version: str | None) -> Problem | None:
        """That somebody else has changed it since it had this version."""
        there = self._there.get(resource.id)
        if version == ABSENT:
            remedy = f"edit it (`pallasctl edit {' '.join(resource.id)}`), or choose another name"
            return (
                None
                if there is None
                else _of(resource, "metadata.name", f"{resource.id} is there already", remedy)
            )
        if version is None or (
            there is not None and (there.resource_version == version or there == resource)
        ):
            return None
        if there is None:
            message, remedy = "is not there any more", "leave `resourceVersion` out to create it again"
        else:
            fields = ", ".join(_differing(resource.spec, there.spec)[:_MOST_NAMED])
            message = (
                f"has been changed since: the version is {there.resource_version} now, with another {fields}"
            )
            remedy = (
                f"get it again (`pallasctl get {' '.join(resource.id)} -o yaml`), and make your change there"
            )
        return _of(resource, "metadata.resourceVersion", message, remedy)

    def _is_copy(self, file: AppliedFile, resource: Resource) -> bool:
        """Whether it is a whole document, as Pallas shows it, of a resource that is gone: that is made anew.

        What only says its version was meant to change one that is there.
        """
        return (
            not file.is_conditional
            and resource.id in file.versions
            and resource.metadata is not None
            and resource.id not in self._there
        )

    def _differs(self, resource: Resource) -> bool:
        """Whether the resource is another one than is there."""
        there = self._there.get(resource.id)
        return there is None or there != resource or there.is_closed != resource.is_closed

    def _network(self, resource: Resource) -> Network | None:
        """Where what it says may lead: no change by somebody who may not say so leads to this machine.

        Who leaves the place as it is leaves that as it is, too, and whoever writes `closed` has it closed.
        """
        if resource.id.kind not in WITH_NETWORK or resource.is_closed or self._change.network == "open":
            return resource.network
        there = self._there.get(resource.id)
        is_kept = there is not None and not there.is_closed and _place(there) == _place(resource)
        return "open" if is_kept else "closed"

    def _stamped(self, resource: Resource) -> Resource:
        there, now = self._there.get(resource.id), self._change.now
        resource = replace(resource, network=self._network(resource))
        if there is not None and there.metadata is not None:
            return _changed(resource, there, self._change)
        metadata = Metadata(
            uid=self._change.new_uid(), owner=self._change.owner, version=1, created_at=now, updated_at=now
        )
        return replace(resource, metadata=metadata)

    def _pruned(self) -> list[ResourceId]:
        return sorted(
            each for each in {*self._there, *self._before.kept.problems} if each not in self._file_of
        )

    def _refuse_broken(
        self,
        after: Assembly,
        accepted: Mapping[ResourceId, Resource],
        put: Mapping[ResourceId, Resource],
        gone: Collection[ResourceId],
    ) -> bool:
        """Refuse what would not work in `after`, and that by which something else would not; whether there is any."""
        refused = len(self._refused)
        for id_, problems in after.disabled.items():
            if id_ in accepted:
                for problem in problems:
                    self._refuse(self._file_of[id_], accepted[id_], problem)
            elif id_ not in self._before.disabled and id_ not in gone:
                message = f"{id_} would not work any more: {problems[0].message}"
                needed = [
                    each.target for each in references_of(after.kept.resources[id_]) if each.target in put
                ]
                for cause in needed or put:
                    problem = _of(put[cause], "", message, f"apply {id_} with it, or leave this as it is")
                    self._refuse(self._file_of[cause], put[cause], problem, "conflict")
        return len(self._refused) > refused

    def _outcomes(self, put: Collection[ResourceId]) -> Iterator[Outcome]:
        for index, file in enumerate(self._files):
            for resource in file.resources:
                if index in self._refused:
                    yield self._refusal(index, file, resource)
                    continue
                there = resource.id in self._there or resource.id in self._before.kept.problems
                word: Word = "unchanged" if resource.id not in put else "configured" if there else "created"
                note = OF_WHAT_IS_GONE if resource.id in self._copies else ""
                yield Outcome(resource=resource.id, word=word, file=file.name, note=note)

    def _refusal(self, index: int, file: AppliedFile, resource: Resource) -> Outcome:
        found = self._refusals.get((index, resource.id), ())
        problems = tuple(dict.fromkeys(refusal.problem for refusal in found))
        if not problems:
            remedy = "mend what is wrong there, and apply it again"
            problems = (_of(resource, "", LEFT_WITH_ITS_FILE, remedy),)
        conflict = bool(found) and all(refusal.reason == "conflict" for refusal in found)
        return Outcome(
            resource=resource.id,
            word="refused",
            file=file.name,
            problems=problems,
            reason="conflict" if conflict else "invalid",
        )


def _after(before: Assembly, put: Iterable[Resource], gone: Iterable[ResourceId]) -> Assembly:
    put, gone = list(put), set(gone)
    written = {each.id for each in put}
    problems = {
        id_: found for id_, found in before.kept.problems.items() if id_ not in written and id_ not in gone
    }
    resources = before.kept.resources.changed(put, gone)
    return assemble(before.base, replace(before.kept, resources=resources, problems=problems))


def _changed(resource: Resource, there: Resource, change: Change) -> Resource:
    assert there.metadata is not None
    metadata = replace(there.metadata, version=there.metadata.version + 1, updated_at=change.now)
    return replace(resource, metadata=metadata)


def _place(resource: Resource) -> object:
    """What decides where it leads: of a server or an llm the URL, of a secret all that may stand in one."""
    return resource.spec if resource.id.kind == "secret" else resource.spec.get("url")


def _differing(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    return [f"spec.{key}" for key in sorted({*ours, *theirs}) if ours.get(key) != theirs.get(key)]


def _of(resource: Resource, field: str, message: str, remedy: str) -> Problem:
    return Problem(resource.file, resource.line(field), field, message, remedy)
