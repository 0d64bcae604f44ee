"""The verb `schema`: print the JSON schema of agents.yaml, for editors."""

from __future__ import annotations

from importlib import resources

import click


@click.command()
def schema() -> None:
    r"""Print the JSON schema of agents.yaml.

    Editors complete and check the file with it. Write it beside agents.yaml, and begin that file with a line
    that names it:

    \b
        pallas schema > agents.schema.json
        # yaml-language-server: $schema=agents.schema.json
    """
    file = resources.files("pallas_registry.deployment") / "agents.schema.json"
    click.echo(file.read_text(encoding="utf-8"), nl=False)
