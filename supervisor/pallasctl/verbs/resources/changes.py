"""Changes of resources asked of the supervisor, and what came of them as lines: for all verbs that change something.

Knows these requests and their answers. What is refused is said by the supervisor, which has read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pallas_common.problems import counted, did_you_mean, quoted
from pallas_control.errors import UnknownAgentError
from pallas_registry.resources.model import LEFT_WITH_ITS_FILE, ResourceId
from pallasctl.failures import EXIT_USAGE, Failure
from pallasctl.options import control
from pallasctl.text import one_line, paint
from pallasctl.verbs.resources.words import kind_of, names_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallas_control.documents import AppliedDocument, AppliedResource
    from pallasctl.text import Colour
    from pallasctl.verbs.resources.files import File

TIMEOUT = 3_600.0
"""Seconds: agents that leave may take their `stop_timeout` first, and another change may be before this one."""

_COLOURS: Mapping[str, Colour] = {
    "created": "green",
    "configured": "yellow",
    "unchanged": "dim",
    "deleted": "red",
    "pruned": "red",
}


_FEW = 4
"""Files of which fewer are named."""
_MOST_HINTS = 3
"""Resources that are not there of which it is said what may have been meant: each asks for the names."""


class NoSuchResource(Failure):
    """A resource that was named is not there: wrong usage, as an agent that is not deployed is."""

    exit_code = EXIT_USAGE


def apply_files(files: Sequence[File], *, dry_run: bool = False, prune: bool = False) -> AppliedDocument:
    """What became of the resources in the files, or would.

    Raises:
        ControlError: the supervisor could not be asked, or refuses the request as such.
    """
    body = {
        "files": [{"file": file.name, "text": file.text} for file in files],
        "dry_run": dry_run,
        "prune": prune,
    }
    document: AppliedDocument = control().post("/v1/resources", body, timeout=TIMEOUT)
    return document


def changed_line(resource: str, outcome: str, *, dry_run: bool = False) -> str:
    """`agent/deployer created`."""
    said = paint(outcome, _COLOURS.get(outcome))
    return f"{one_line(resource)} {said}{' (dry run)' if dry_run else ''}"


def problems_of(document: AppliedDocument) -> list[str]:
    """All that was found wrong, a line each, none twice."""
    found = [*document.get("problems", ())]
    for result in document["results"]:
        found += result.get("problems", ())
    said = list(dict.fromkeys(map(str, found)))
    return [problem for problem in said if LEFT_WITH_ITS_FILE not in problem] or said


def refused_of(document: AppliedDocument) -> list[AppliedResource]:
    """The resources that were refused."""
    return [result for result in document["results"] if result["outcome"] == "refused"]


def report(document: AppliedDocument, *, dry_run: bool = False) -> None:
    """Prints what was done.

    Raises:
        Failure: something was refused.
    """
    for result in document["results"]:
        if result["outcome"] != "refused":
            line = changed_line(result["resource"], result["outcome"], dry_run=dry_run)
            click.echo(f"{line} ({note})" if (note := result.get("note")) else line)
    problems = problems_of(document)
    if problems or refused_of(document):
        raise Failure(_refusal(document, problems), details=problems)


def _refusal(document: AppliedDocument, problems: Sequence[str]) -> str:
    count = f": {counted(len(problems), 'problem')}" if problems else ""
    refused = refused_of(document)
    files = list(dict.fromkeys(file for result in refused if (file := result.get("file"))))
    if not files:
        what = f"{refused[0]['resource']} is refused" if len(refused) == 1 else "not all of it is applied"
        return f"{what}{count}" if document["results"] else f"nothing is applied{count}"
    named = ", ".join(files) if len(files) < _FEW else counted(len(files), "file")
    return f"nothing of {named} is applied{count}"


def resource_of(resource: ResourceId) -> dict[str, Any]:
    """The resource as the supervisor has it.

    Raises:
        NoSuchResource: there is none.
    """
    try:
        found: dict[str, Any] = control().get(path_of(resource))
    except UnknownAgentError as error:
        raise missing(resource, error) from None
    return found


def delete(resources: Sequence[ResourceId]) -> Sequence[AppliedResource]:
    """Deletes them in one request; returns what became of each, and of others by that: a project leaves its agents.

    Raises:
        ControlError: the supervisor could not be asked, or refuses the request as such.
    """
    document: AppliedDocument = control().post(
        "/v1/resources", {"delete": list(map(str, resources))}, timeout=TIMEOUT
    )
    return document["results"]


def deletion_failures(results: Sequence[AppliedResource]) -> Iterator[Failure]:
    """A failure for each resource that is still there, or was not."""
    hints = 0
    for result in results:
        kind, _, name = result["resource"].partition("/")
        if result["outcome"] == "refused":
            problems = result.get("problems") or [f"{result['resource']} is refused"]
            yield Failure(one_line(problems[0]), details=list(map(one_line, problems[1:])))
        elif result["outcome"] == "missing":
            hints += 1
            if hints <= _MOST_HINTS:
                yield missing(ResourceId(kind_of(kind), name))
            else:
                yield NoSuchResource(f"there is no {one_line(kind)} {quoted(name)}")


def missing(resource: ResourceId, error: UnknownAgentError | None = None) -> NoSuchResource:
    """The failure for a resource that is not there, with the name that may have been meant."""
    kind, name = resource
    if error is not None and error.message.startswith("there is no"):
        return NoSuchResource(error.message)
    if near := did_you_mean(name, names_of(kind)):
        return NoSuchResource(f"there is no {kind} {quoted(name)}; did you mean {near!r}?")
    return NoSuchResource(f"there is no {kind} {quoted(name)}; `pallasctl get {kind}s` lists them")
