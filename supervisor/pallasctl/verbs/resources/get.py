"""The verb `get`: resources as tables, or as they are written.

Knows the kinds and how they are asked for; what stands in a table is in `tables`.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pallas_common.terminal_text import terminal_json
from pallas_registry.resources.model import KINDS, ResourceId
from pallasctl.options import control, output_option, supervisor_options
from pallasctl.text import one_line
from pallasctl.verbs.resources.changes import missing, resource_of
from pallasctl.verbs.resources.tables import resource_table, source_of
from pallasctl.verbs.resources.words import complete_resource, kind_of, resources_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pallas_registry.resources.model import Kind

ALL = "all"


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=complete_resource)
@output_option("table", "wide", "json", "yaml", "name")
@supervisor_options
def get(what: tuple[str, ...], output: str) -> None:
    """Show resources: of a kind, or those that are named.

    KIND is agent, llm, secret, server or project, singular or plural, or `all`. `get agent/jarvis` is the same
    as `get agent jarvis`. Agents of agents.yaml are among the others, with their place as SOURCE.

    `-o yaml` prints what can be applied again: `pallasctl get all -o yaml | pallasctl apply -f -` changes nothing.
    Values of secrets are never shown, their digests are.
    """
    if len(what) == 1 and "/" not in what[0]:
        word = what[0].lower()
        _show(_of_kinds(KINDS if word == ALL else (kind_of(word),)), output, every=word == ALL)
        return
    wanted = resources_of(what)
    if len(wanted) == 1 and output in ("json", "yaml"):
        from pallasctl.yaml_text import yaml_document

        found = resource_of(wanted[0])
        click.echo(terminal_json(found) if output == "json" else yaml_document(found))
        return
    _show(_named(wanted), output)


def _of_kinds(kinds: Sequence[Kind]) -> dict[Kind, list[dict[str, Any]]]:
    asked = control()
    return {kind: asked.get(f"/v1/resources/{kind}")["items"] for kind in kinds}


def _named(wanted: Sequence[ResourceId]) -> dict[Kind, list[dict[str, Any]]]:
    found: dict[Kind, list[dict[str, Any]]] = {}
    if len(wanted) == 1:
        return {wanted[0].kind: [resource_of(wanted[0])]}
    kinds = list(dict.fromkeys(each.kind for each in wanted))
    known = {
        ResourceId(kind, item["metadata"]["name"]): item
        for kind, items in _of_kinds(kinds).items()
        for item in items
    }
    for each in wanted:
        if each not in known:
            raise missing(each)
        found.setdefault(each.kind, []).append(known[each])
    return found


def _show(found: Mapping[Kind, Sequence[dict[str, Any]]], output: str, *, every: bool = False) -> None:
    items = [item for of_kind in found.values() for item in of_kind]
    match output:
        case "json":
            click.echo(terminal_json({"items": items}))
        case "yaml" if items:
            click.echo(_yaml(items))
        case "name" if items:
            for kind, of_kind in found.items():
                for item in of_kind:
                    click.echo(one_line(f"{kind}/{item['metadata']['name']}"))
        case "table" | "wide" if items:
            for line in _tables(found, wide=output == "wide"):
                click.echo(line)
        case _:
            what = "resources" if every else f"{next(iter(found))}s"
            print(f"there are no {what}", file=sys.stderr)


def _tables(found: Mapping[Kind, Sequence[dict[str, Any]]], *, wide: bool) -> Iterator[str]:
    now = datetime.now(UTC)
    filled = {kind: items for kind, items in found.items() if items}
    for number, (kind, items) in enumerate(filled.items()):
        if number:
            yield ""
        yield resource_table(kind, items, now, wide=wide, named_by_kind=len(found) > 1)


def _yaml(items: Sequence[dict[str, Any]]) -> str:
    from pallasctl.yaml_text import yaml_document

    # Those of agents.yaml are changed there alone, and would have the rest refused that is applied with them.
    notes = [
        f"# {item['kind']}/{item['metadata']['name']} is in {source_of(item)}"
        for item in items
        if source_of(item)
    ]
    kept = [item for item in items if not source_of(item)]
    head = "".join(f"{one_line(note)}\n" for note in notes)
    return head + "\n---\n".join(map(yaml_document, kept))
