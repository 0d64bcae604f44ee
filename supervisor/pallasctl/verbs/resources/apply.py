"""The verb `apply`: what files say becomes what there is.

Knows its options; the supervisor reads the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallas_common.terminal_text import terminal_json
from pallasctl.failures import EXIT_FAILED, Failure
from pallasctl.options import output_option, supervisor_options
from pallasctl.verbs.resources.changes import apply_files, problems_of, refused_of, report
from pallasctl.verbs.resources.files import files_of, files_option, recursive_option

if TYPE_CHECKING:
    from pallas_control.documents import AppliedDocument


@click.command()
@files_option()
@recursive_option
@click.option("--dry-run", is_flag=True, help="Only say what it would do.")
@click.option("--prune", is_flag=True, help="Delete all resources that are not in these files.")
@output_option("text", "json")
@supervisor_options
@click.pass_context
def apply(
    ctx: click.Context, paths: tuple[str, ...], *, recursive: bool, dry_run: bool, prune: bool, output: str
) -> None:
    """Create and change resources as files say.

    A file has one resource or several, with `---` between them; a folder is all of its files, in the order of
    their names. A file is applied whole or not at all, and what its resources refer to may be in another one.
    Only agents that are touched by a change get a new process.

    Exit status: 0 all of it is done, 1 something was refused, 2 wrong usage.
    """
    files = files_of(paths, recursive=recursive)
    if prune:
        _require_something_left(apply_files(files, dry_run=True, prune=True))
    document = apply_files(files, dry_run=dry_run, prune=prune)
    if not document["results"] and not problems_of(document):
        raise Failure("there is no resource in these files; docs/resources.md shows what one looks like")
    if output == "text":
        report(document, dry_run=dry_run)
        return
    click.echo(terminal_json(document))
    if refused_of(document) or problems_of(document):
        ctx.exit(EXIT_FAILED)


def _require_something_left(document: AppliedDocument) -> None:
    """Files without a resource would delete everything."""
    left = [result for result in document["results"] if result["outcome"] != "pruned"]
    if not left and not problems_of(document):
        raise Failure(
            "there is no resource in these files, so that --prune would delete all; `pallasctl delete` does that"
        )
