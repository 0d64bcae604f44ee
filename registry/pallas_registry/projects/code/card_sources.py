"""What can stand behind `card:`: each card that no other one uses, alone or with its folder.

Pure. Knows that fast-agent reads every card of a folder, and what it makes of other files there.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from pallas_common.problems import Problem, quoted
from pallas_registry.projects.code.facts import Card, Definition, Source, outermost, reach

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pallas_registry.projects.code.facts import Notes

PROPOSED_FOLDER = "cards"
"""For cards that lie among other files."""

TOOL_FOLDERS = frozenset({"tool-cards"})
"""Where fast-agent looks for cards that are tools of an agent."""


def card_sources(
    cards: Sequence[Card], files: Collection[str], notes: Notes, left_out: list[str]
) -> list[Source]:
    """The sources of those cards that are to be served: of a folder whose cards work together, those that use others.

    Args:
        files: paths of all files of the project that were looked at.
        left_out: is added to: what is not served, and why.
    """
    folders: dict[str, list[Definition]] = {}
    for card in cards:
        folders.setdefault(card.folder, []).append(card.definition)
    used = {part for card in cards for part in card.definition.parts if part != card.definition.name}
    elsewhere = {card.definition.name: card.definition.file for card in cards}
    found: list[Source] = []
    for folder, definitions in folders.items():
        if posixpath.basename(folder) in TOOL_FOLDERS:
            left_out += [f"{each.file}: a tool of other agents" for each in definitions]
            continue
        names = {each.name for each in definitions}
        crowded = _crowded(folder, definitions, files)
        chosen = outermost(definitions)
        if not chosen and (circle := [each for each in definitions if not each.tool_only]):
            notes.mend.append(_circle(circle))
        together = [each for each in chosen if each.parts]
        alone = [] if together else [each for each in chosen if each.name not in used]
        found += [_source(each.file, each, [each]) for each in alone]
        for each in together:
            for missing in sorted(_parts(each, definitions) - names):
                notes.mend.append(_missing(each, missing, elsewhere))
            value = f"{folder or '.'}/"
            if crowded is not None:
                value = posixpath.join(folder, PROPOSED_FOLDER) + "/"
                message = f"works with other cards of its folder, where {crowded} lies too, which is no card"
                remedy = f"move the cards into a folder of their own, `{value}`"
                notes.mend.append(Problem(each.file, None, "", message, remedy))
            found.append(_source(value, each, definitions))
    return found


def _source(value: str, served: Definition, definitions: Sequence[Definition]) -> Source:
    return Source(
        key="card",
        value=value,
        file=served.file,
        line=1,
        definitions=tuple(definitions),
        served=served,
        free_name=len(definitions) < 2,
    )


def _crowded(folder: str, definitions: Sequence[Definition], files: Collection[str]) -> str | None:
    """A file of the folder that fast-agent would take for a card, and is none."""
    cards = {each.file for each in definitions}
    if not folder:
        return "agents.yaml"
    others = (path for path in files if posixpath.dirname(path) == folder and path not in cards)
    return next(
        (posixpath.basename(path) for path in others if path.lower().endswith((".yaml", ".yml"))), None
    )


def _parts(each: Definition, definitions: Sequence[Definition]) -> set[str]:
    every = reach(each.name or "", definitions)
    return {part for found in definitions if found.name in every for part in found.parts}


def _circle(definitions: Sequence[Definition]) -> Problem:
    names = ", ".join(quoted(each.name or "") for each in definitions[:3]) + ", …" * (len(definitions) > 3)
    message = f"these agents use each other in a circle, which fast-agent refuses: {names}"
    remedy = "remove one of them from what another one uses"
    return Problem(definitions[0].file, None, "", message, remedy)


def _missing(each: Definition, missing: str, elsewhere: dict[str | None, str]) -> Problem:
    message = f"works with the agent {quoted(missing)}, which is not in this folder"
    if place := elsewhere.get(missing):
        return Problem(each.file, None, "", message, f"copy {place} beside it")
    return Problem(each.file, None, "", message, "write a card for it, or remove it")
