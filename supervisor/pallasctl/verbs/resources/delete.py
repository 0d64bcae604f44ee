"""The verb `delete`: resources by name, or those of files.

Knows in which order they go, so that what uses another is gone before it.
"""

from __future__ import annotations

import click

from pallas_registry.resources.model import KINDS
from pallasctl.failures import Failure
from pallasctl.options import socket_option
from pallasctl.verbs.resources import changes
from pallasctl.verbs.resources.files import files_of, files_option, recursive_option, resources_in
from pallasctl.verbs.resources.words import complete_resource, resources_of

ORDER = ("agent", "project", "server", "llm", "secret")
"""Of kinds: each before those that it may refer to."""

assert set(ORDER) == set(KINDS)


@click.command()
@click.argument("what", nargs=-1, metavar="[KIND NAME...]", shell_complete=complete_resource)
@files_option(required=False)
@recursive_option
@socket_option
@click.pass_context
def delete(ctx: click.Context, what: tuple[str, ...], paths: tuple[str, ...], *, recursive: bool) -> None:
    """Delete resources: those that are named, or all that files have.

    An agent finishes its calls first. An llm, a server or a secret that something uses is refused, with who
    uses it; a project leaves its agents behind. Nothing is asked before.

    Exit status: 0 all are gone, 1 something was refused, 2 wrong usage, or one is not there.
    """
    if bool(what) == bool(paths):
        raise click.UsageError("name resources, as in `delete agent jarvis`, or give files with -f")
    if what:
        wanted = resources_of(what)
    else:
        wanted = [resource.id for resource in resources_in(files_of(paths, recursive=recursive))]
    failures: list[Failure] = []
    for resource in sorted(wanted, key=lambda each: ORDER.index(each.kind)):
        try:
            results = changes.delete(resource)
        except Failure as failure:
            failure.show()
            failures.append(failure)
        else:
            for result in results:
                click.echo(changes.changed_line(result["resource"], result["outcome"]))
    if failures:
        ctx.exit(min(failure.exit_code for failure in failures))
