"""The verb `edit`: one resource in an editor.

Knows the editor and its file; what may be said is for the supervisor.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallas_common.problems import ConfigurationError, quoted
from pallas_common.processes.spawning import run_at_terminal
from pallas_control.errors import ControlError
from pallas_registry.reading.files import read_file, text_of
from pallasctl.failures import Failure
from pallasctl.options import supervisor_options
from pallasctl.verbs.resources import changes
from pallasctl.verbs.resources.files import File
from pallasctl.verbs.resources.tables import source_of
from pallasctl.verbs.resources.words import complete_resource, one_resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallas_control.documents import AppliedDocument
    from pallas_registry.resources.model import ResourceId

EDITORS = ("VISUAL", "EDITOR")
DEFAULT_EDITOR = "vi"

_NOTE = "#!"
"""Begins the lines that `edit` has put above the text."""
_LINE = re.compile(r"^([^:\n]+):(\d+):")


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME", shell_complete=complete_resource)
@supervisor_options
def edit(what: tuple[str, ...]) -> None:
    """Change a resource in an editor: $VISUAL, else $EDITOR, else vi.

    A text that is left as it was changes nothing. One that is refused comes back into the editor with what is
    wrong above it; leaving that as it is ends the verb, keeps the text in its file, and says where. The same
    where somebody else has changed the resource meanwhile.
    """
    resource = one_resource(what)
    original = _text_of(resource)
    file = _private_file(resource, original)
    try:
        _edit(resource, file, original)
    except (Failure, ControlError) as error:
        if not file.exists() or file.read_bytes() == original.encode():
            file.unlink(missing_ok=True)
            raise
        raise Failure(error.message, details=[*error.details, f"your text is kept: {file}"]) from None
    file.unlink(missing_ok=True)


def _text_of(resource: ResourceId) -> str:
    from pallasctl.yaml_text import yaml_document

    found = changes.resource_of(resource)
    if place := source_of(found):
        raise Failure(f"{resource} is in {place}: change it there, and run `pallasctl reload`")
    metadata = {key: value for key, value in found["metadata"].items() if key in ("name", "resourceVersion")}
    shown = {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}
    return yaml_document(shown) + "\n"


def _edit(resource: ResourceId, file: Path, original: str) -> None:
    """Let the user edit until it is taken over, or left as it is."""
    refused: str | None = None
    problems: Sequence[str] = ()
    while True:
        _run_editor(file)
        text = _read(file)
        if _body(text) == original:
            click.echo(changes.changed_line(str(resource), "unchanged"))
            return
        if _body(text) == refused:
            raise Failure(f"{resource} is not changed: the text was left as it was refused", details=problems)
        document = changes.apply_files([File(str(file), text)])
        problems = changes.problems_of(document)
        if not problems and not changes.refused_of(document):
            changes.report(document)
            return
        if _is_conflict(document):
            raise Failure(
                f"{resource} is not changed: somebody else has changed it meanwhile", details=problems
            )
        refused = _body(text)
        file.write_text(with_notes(text, problems, str(file)), encoding="utf-8")


def _is_conflict(document: AppliedDocument) -> bool:
    """Whether somebody else has changed it meanwhile, so that no other text will do."""
    return any("resourceVersion" in problem for problem in changes.problems_of(document))


def with_notes(text: str, problems: Sequence[str], file: str) -> str:
    """The text of `file` with what is wrong above it, in lines that YAML takes for comments."""
    body = _body(text)
    head = 2 + len(problems)
    moved = head - (text.count("\n") - body.count("\n"))

    def note(problem: str) -> str:
        match = _LINE.match(problem)
        if match is None or match[1] != file:
            return f"{_NOTE} {problem}"
        return f"{_NOTE} line {int(match[2]) + moved}:{problem[match.end() :]}"

    said = [
        f"{_NOTE} This was refused. Mend it, or leave it as it is to end here.",
        *map(note, problems),
        _NOTE,
    ]
    return "".join(f"{line}\n" for line in said) + body


def _body(text: str) -> str:
    """The text without what `edit` has put above it."""
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith(_NOTE):
        del lines[0]
    return "".join(lines)


def _run_editor(file: Path) -> None:
    wanted = next(filter(None, map(os.environ.get, EDITORS)), DEFAULT_EDITOR)
    try:
        command = [*shlex.split(wanted), str(file)]
        status = run_at_terminal(command)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise Failure(f"the editor {quoted(wanted)} cannot be started: {reason}; set EDITOR") from None
    if status != 0:
        raise Failure(f"the editor {quoted(wanted)} ended with status {status}; nothing is changed")


def _private_file(resource: ResourceId, text: str) -> Path:
    """A file of its own for the editor, which nobody else may read."""
    descriptor, path = tempfile.mkstemp(prefix=f"pallas-{resource.kind}-", suffix=".yaml")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(path)


def _read(file: Path) -> str:
    try:
        data = read_file(file)
    except ConfigurationError as error:
        raise Failure(str(error)) from None
    if data is None:
        raise Failure(f"the editor has removed {file}; nothing is changed")
    try:
        return text_of(data, str(file))
    except ConfigurationError as error:
        raise Failure(str(error)) from None
