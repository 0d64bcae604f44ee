"""The verb `diff`: what an apply would change, line by line.

Knows how files are read and what the supervisor has; values of secrets are compared by the supervisor alone.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_text
from pallas_control.errors import ControlError, UnknownAgentError
from pallas_registry.resources.model import API_VERSION
from pallasctl.failures import EXIT_FAILED, EXIT_USAGE, Failure
from pallasctl.options import control, supervisor_options
from pallasctl.text import paint
from pallasctl.verbs.resources import changes
from pallasctl.verbs.resources.files import File, files_of, files_option, recursive_option, resources_in
from pallasctl.verbs.resources.words import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pallas_registry.resources.model import Resource, ResourceId
    from pallasctl.text import Colour

EXIT_DIFFERENT = EXIT_FAILED
EXIT_ERROR = EXIT_USAGE
"""As diff(1) has it."""

ANOTHER_VALUE = "(another value)"
"""Stands for the digest of a value that is not there yet."""

_COLOURS: Mapping[str, Colour] = {"+": "green", "-": "red", "@": "dim"}


class NoDiff(Failure):
    """The difference could not be found out."""

    exit_code = EXIT_ERROR


@click.command()
@files_option()
@recursive_option
@supervisor_options
@click.pass_context
def diff(ctx: click.Context, paths: tuple[str, ...], *, recursive: bool) -> None:
    """Show what `apply` of these files would change, as a unified diff of YAML.

    Values of secrets are shown by their digests alone.

    Exit status: 0 nothing would change, 1 something would, 2 the files are refused, or it could not be found out.
    """
    files = files_of(paths, recursive=recursive)
    try:
        lines = list(_differences(files))
    except (ControlError, Failure) as error:
        raise NoDiff(error.message, details=error.details) from None
    for line in lines:
        click.echo(paint(terminal_text(line), _COLOURS.get(line[:1])))
    if lines:
        ctx.exit(EXIT_DIFFERENT)


def _differences(files: list[File]) -> Iterator[str]:
    planned = changes.apply_files(files, dry_run=True)
    if problems := changes.problems_of(planned):
        raise Failure("an apply would refuse these files", details=problems)
    outcomes = {result["resource"]: result["outcome"] for result in planned["results"]}
    for resource in resources_in(files):
        if outcomes.get(str(resource.id)) == "unchanged":
            continue
        now = _spec_of(resource.id)
        new: Mapping[str, Any] = resource.spec
        if resource.id.kind == "secret":
            new = {**new, "data": _digests(resource, {} if now is None else now["data"])}
        yield from difflib.unified_diff(
            [] if now is None else _lines(resource.id, now),
            _lines(resource.id, new),
            f"{resource.id} (now)",
            f"{resource.id} ({resource.file})",
            lineterm="",
        )


def _spec_of(resource: ResourceId) -> dict[str, Any] | None:
    try:
        spec: dict[str, Any] | None = control().get(path_of(resource)).get("spec")
    except UnknownAgentError:
        return None
    return spec


def _lines(resource: ResourceId, spec: Mapping[str, Any]) -> list[str]:
    return _yaml(resource, spec).split("\n")


def _yaml(resource: ResourceId, spec: Mapping[str, Any]) -> str:
    from pallasctl.yaml_text import yaml_document

    kind, name = resource
    return yaml_document(
        {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
    )


def _digests(secret: Resource, now: Mapping[str, Any]) -> dict[str, Any]:
    """What a secret would show: only the supervisor can tell whether a value is the one that is there."""
    new: Mapping[str, Any] = secret.spec["data"]
    kept = {key: now[key] for key in new if key in now}
    shown: dict[str, Any] = {}
    for key, value in new.items():
        same = key in now and (value == now[key] or _is_same(secret.id, {**now, key: value}))
        shown[key] = kept[key] if same else {"digest": ANOTHER_VALUE}
    return shown


def _is_same(secret: ResourceId, data: Mapping[str, Any]) -> bool:
    said = changes.apply_files([File("diff", f"{_yaml(secret, {'data': dict(data)})}\n")], dry_run=True)
    return all(result["outcome"] == "unchanged" for result in said["results"])
