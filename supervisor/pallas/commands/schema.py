"""The verb `schema`: print the JSON schema of agents.yaml, or of resources, for editors."""

from __future__ import annotations

from importlib import resources

import click

FILES = {
    "agents": ("pallas_registry.deployment", "agents.schema.json"),
    "resources": ("pallas_registry.resources", "resources.schema.json"),
}


@click.command()
@click.argument("what", type=click.Choice(tuple(FILES)), default="agents")
def schema(what: str) -> None:
    """Print the JSON schema of agents.yaml, or of resources.

    Editors complete and check a file with it. Write it beside agents.yaml, and begin that file with a line
    that names it:

    \b
        pallas schema > agents.schema.json
        # yaml-language-server: $schema=agents.schema.json

    `pallas schema resources` is the schema of the documents that `pallasctl apply` takes.
    """  # noqa: D301 - click's mark of a paragraph that keeps its lines
    package, name = FILES[what]
    file = resources.files(package) / name
    click.echo(file.read_text(encoding="utf-8"), nl=False)
