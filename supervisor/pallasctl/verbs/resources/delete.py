"""The verb `delete`: resources by name, or those of files, in one request."""

from __future__ import annotations

import click

from pallasctl.options import supervisor_options
from pallasctl.verbs.resources import changes
from pallasctl.verbs.resources.files import files_of, files_option, recursive_option, resources_in
from pallasctl.verbs.resources.words import complete_resource, resources_of


@click.command()
@click.argument("what", nargs=-1, metavar="[KIND NAME...]", shell_complete=complete_resource)
@files_option(required=False)
@recursive_option
@supervisor_options
@click.pass_context
def delete(ctx: click.Context, what: tuple[str, ...], paths: tuple[str, ...], *, recursive: bool) -> None:
    """Delete resources: those that are named, or all that files have.

    An agent finishes its calls first. An llm, a server or a secret that something else uses, which is not
    deleted with it, is refused, with who uses it; a project leaves its agents behind. Nothing is asked before.

    Exit status: 0 all are gone, 1 something was refused, 2 wrong usage, or one is not there.
    """
    if bool(what) == bool(paths):
        raise click.UsageError("name resources, as in `delete agent jarvis`, or give files with -f")
    if what:
        wanted = resources_of(what)
    else:
        wanted = [resource.id for resource in resources_in(files_of(paths, recursive=recursive))]
    if not wanted:
        return
    results = changes.delete(list(dict.fromkeys(wanted)))
    for result in results:
        if result["outcome"] not in ("refused", "missing"):
            click.echo(changes.changed_line(result["resource"], result["outcome"]))
    failures = list(changes.deletion_failures(results))
    for failure in failures:
        failure.show()
    if failures:
        ctx.exit(min(failure.exit_code for failure in failures))
