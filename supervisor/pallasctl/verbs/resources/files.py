"""What `-f` names: files, folders, stdin, and the texts in them.

Knows files; what they say is read by the reader that the supervisor has as well.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_registry.reading.files import MAXIMUM_BYTES, read_file, text_of
from pallasctl.failures import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pallas_registry.resources.model import Resource
    from pallasctl.options import Option

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
NO_RESOURCES = ("agents.yaml", "fastagent.config.yaml", "fastagent.secrets.yaml")
"""Names of files that are often beside those of resources, and have none."""


class File(NamedTuple):
    """A file's name, as people are told it, and its text."""

    name: str
    text: str


def files_option(*, required: bool = True) -> Option:
    """`-f FILE|DIR|-`, as often as wanted."""
    return click.option(
        "-f",
        "--filename",
        "paths",
        multiple=True,
        required=required,
        metavar="FILE|DIR|-",
        type=click.Path(allow_dash=True),
        help="A file, the *.yaml, *.yml and *.json of a folder, or - for stdin; as often as wanted.",
    )


recursive_option = click.option(
    "-R", "--recursive", is_flag=True, help="Of a folder, also the folders below it."
)


def files_of(paths: Sequence[str], *, recursive: bool) -> list[File]:
    """The files that the paths mean, each once; those of a folder in the order of their names, hidden ones left out.

    Raises:
        InvalidConfiguration: something there is no text, or nothing at all; with all that was found.
    """
    found: dict[str, File] = {}
    problems: list[Problem] = []
    for path in dict.fromkeys(paths):
        try:
            for file in _files(path, recursive=recursive):
                found.setdefault(file.name, file)
        except ConfigurationError as error:
            problems += error.found
    if problems:
        raise InvalidConfiguration(
            "not all files can be read; nothing was done", details=list(map(str, problems))
        )
    return list(found.values())


def resources_in(files: Sequence[File]) -> list[Resource]:
    """The resources of the files, in their order.

    Raises:
        InvalidConfiguration: something in them cannot be read.
    """
    from pallas_registry.resources.documents import read_resources

    read = [read_resources(file.text.encode("utf-8", "surrogatepass"), file.name) for file in files]
    if problems := [str(problem) for each in read for problem in each.problems]:
        raise InvalidConfiguration("not all files can be read; nothing was done", details=problems)
    return [resource for each in read for resource in each.resources]


def _files(path: str, *, recursive: bool) -> Iterator[File]:
    if path == STDIN:
        data = sys.stdin.buffer.read(MAXIMUM_BYTES + 1)
        yield File("<stdin>", text_of(data, "<stdin>"))
        return
    place = Path(path)
    if not place.is_dir():
        yield _file(place)
        return
    if not (files := sorted(_in_folder(place, recursive=recursive))):
        below = "" if recursive else ", or -R for the folders below it"
        raise _refused(path, "has no *.yaml, *.yml or *.json", f"name another folder, or a file{below}")
    for each in files:
        yield _file(each)


def _in_folder(folder: Path, *, recursive: bool) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise _refused(str(folder), f"cannot be read: {error.strerror}", "grant read permission") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if recursive and entry.is_dir() and not entry.is_symlink():
            yield from _in_folder(entry, recursive=True)
        elif entry.suffix in SUFFIXES and entry.name not in NO_RESOURCES and not entry.is_dir():
            yield entry


def _file(path: Path) -> File:
    if (data := read_file(path, "name a regular file")) is None:
        raise _refused(str(path), "is not there", f"check the path; this is {quoted(str(Path.cwd()), 200)}")
    return File(str(path), text_of(data, str(path)))


def _refused(file: str, message: str, remedy: str) -> ConfigurationError:
    return ConfigurationError([Problem(file, None, "", message, remedy)])
