"""The deployment that follows from what a project holds: an entry of agents.yaml for each FastAgent and card.

Pure; what only the machine knows (which ports are free, what is installed) it is told.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.problems import Problem, quoted
from pallas_common.protocol.gateway import DEFAULT_PORT
from pallas_registry.deployment.agents_file import DEFAULT_REGISTRY_PORT
from pallas_registry.projects import links, wording
from pallas_registry.projects.code.applications import module_sources
from pallas_registry.projects.code.card_sources import card_sources
from pallas_registry.projects.code.cards import read_card
from pallas_registry.projects.code.facts import Card, Notes, without_model
from pallas_registry.projects.model import Entry, Proposal
from pallas_registry.projects.servers import read_settings
from pallas_registry.reading.rules import Complaint
from pallas_registry.reading.sources import card_source, module_source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pallas_registry.projects.code.facts import Source
    from pallas_registry.projects.code.files import Tree

FIRST_PORT = 24201
MOST_ENTRIES = 200


def propose(
    tree: Tree,
    directory: str,
    name: str | None = None,
    *,
    is_free: Callable[[int], bool],
    is_installed: Callable[[str], bool] = lambda package: False,
    has_model: bool = False,
) -> Proposal:
    """The deployment for a project.

    Args:
        directory: what the project's folder is called.
        name: of the deployment; None: the one FastAgent's, else the folder's.
        is_free: whether a port of this machine can be listened on.
        is_installed: whether Python finds a package without the project's folder.
        has_model: whether the environment names a model for agents that name none.
    """
    notes = Notes()
    read = [read_card(data, path) for path, data in tree.files.items() if not path.endswith(".py")]
    cards = [card for card in read if isinstance(card, Card)]
    notes.mend.extend(problem for problem in read if isinstance(problem, Problem))
    sources, loaded, left_out = module_sources(tree, cards, notes, is_installed)
    free_cards = [card for card in cards if card.definition.file not in loaded]
    sources += card_sources(free_cards, tree.files.keys(), notes, left_out)
    sources = [source for source in sources if _can_be_written(source, left_out)]
    if len(sources) > MOST_ENTRIES:
        left_out.append(f"{len(sources) - MOST_ENTRIES} more sources: there are more than {MOST_ENTRIES}")
        del sources[MOST_ENTRIES:]
    names = [source.name for source in sources if source.name]
    proposal = Proposal(
        name=name or wording.deployment_name(names[0] if len(names) == 1 else directory),
        entries=_entries(sources, notes, left_out),
        left_out=left_out,
        projects=tree.others,
        notes=notes,
    )
    settings = read_settings(tree.files)
    _ports(proposal, links.wanted_ports(proposal.entries, settings.servers), is_free)
    proposal.entries = links.with_dependencies(proposal.entries, settings.servers, tree.files)
    if not (has_model or settings.has_model):
        _require_model(proposal, settings.file)
    if tree.cut_short:
        notes.unknown.append(f"what else there is: {tree.cut_short}, not all were looked at")
    return proposal


def _can_be_written(source: Source, left_out: list[str]) -> bool:
    """Whether agents.yaml has a way to say where it is: not of a path with a colon, which separates a name there."""
    read = module_source if source.key == "module" else card_source
    if isinstance(read(source.value), Complaint):
        left_out.append(
            f"{source.file}: agents.yaml cannot name a path like this one; rename the file or its folder"
        )
        return False
    return True


def _require_model(proposal: Proposal, file: str) -> None:
    """Says that there is no model for agents which leave it to the settings: they do not start then."""
    lacking = [
        entry.name
        for entry in proposal.entries
        if without_model(entry.source) and not entry.source.own_settings
    ]
    if lacking:
        names = ", ".join(lacking[:3]) + (", …" if len(lacking) > 3 else "")
        message = f"no model is set for {names}"
        remedy = f"add `default_model: …` to {file}, or FAST_AGENT_MODEL=… to .env"
        proposal.notes.mend.append(Problem("", None, "", message, remedy))


def _entries(sources: Sequence[Source], notes: Notes, left_out: list[str]) -> list[Entry]:
    """The entries; those whose name is given by the code come to theirs first."""
    wanted = [wording.wanted_name(source) for source in sources]
    taken: set[str] = set()
    names: list[str | None] = [None] * len(sources)
    for index, source in enumerate(sources):
        if not source.free_name:
            names[index] = _given_name(source, wanted[index], taken, notes, left_out)
    for index, source in enumerate(sources):
        if source.free_name:
            shared = wanted.count(wanted[index]) > 1
            names[index] = _free_name(source, wanted[index], taken, shared=shared)
    return [
        Entry(
            name=name,
            source=source,
            title=wording.title(name),
            description=wording.description(source) or wording.title(name),
        )
        for source, name in zip(sources, names, strict=True)
        if name is not None
    ]


def _given_name(
    source: Source, wanted: str, taken: set[str], notes: Notes, left_out: list[str]
) -> str | None:
    """The name of an entry that has to be the agent's own; None if another entry has it."""
    chosen = source.served
    if chosen is None or chosen.name is None:
        place = f"{chosen.file}:{chosen.line}" if chosen else f"{source.file}:{source.line}"
        if chosen is not None:
            notes.unknown.append(f"the name of the agent at {place}, which the entry must have")
    elif wanted != chosen.name:
        message = f"{quoted(chosen.name)} cannot be the name of a tool, and one of several has to be called as it is"
        notes.mend.append(
            Problem(chosen.file, chosen.line, "", message, f"rename the agent: {quoted(wanted)}")
        )
    if _slug(wanted) in taken:
        place = f"{chosen.file}:{chosen.line}" if chosen else f"{source.file}:{source.line}"
        left_out.append(f"{place}: another agent is called {wanted}; rename one to serve both")
        return None
    taken.add(_slug(wanted))
    return wanted


def _free_name(source: Source, wanted: str, taken: set[str], *, shared: bool) -> str:
    """A name that no other entry has: the agent's, else the file's, else one with a number."""
    from_file = wording.name_of_file(source)
    for name in ([] if shared else [wanted]) + [from_file, wording.name_of_path(source)]:
        if _slug(name) not in taken:
            break
    else:
        numbers = range(2, MOST_ENTRIES + 2)
        name = next(each for number in numbers if _slug(each := f"{from_file[:60]}-{number}") not in taken)
    taken.add(_slug(name))
    return name


def _slug(name: str) -> str:
    return re.sub("_", "-", name)


def free_ports(is_free: Callable[[int], bool], taken: Collection[int] = ()) -> Iterator[int]:
    """Ports for agents that nobody has, in order."""
    return (port for port in range(FIRST_PORT, 65536) if port not in taken and is_free(port))


def _ports(proposal: Proposal, wanted: dict[str, tuple[int, str]], is_free: Callable[[int], bool]) -> None:
    """Gives every entry a port: the one at which the project's settings look for it, else a free one."""
    given: dict[str, int] = {}
    for name, (port, why) in wanted.items():
        if port in given.values():
            continue
        given[name] = port
        if not is_free(port):
            proposal.notes.unknown.append(f"who listens on port {port}, which {why}: end it before the start")
    taken = set(given.values())
    registry = (DEFAULT_REGISTRY_PORT, *range(DEFAULT_REGISTRY_PORT - 1, 1024, -1))
    reserved = {*taken, DEFAULT_PORT}  # the deployment may get a gateway
    proposal.registry_port = next(port for port in registry if port not in reserved and is_free(port))
    ports = free_ports(is_free, taken)
    proposal.entries = [
        replace(entry, port=given[entry.name] if entry.name in given else next(ports))
        for entry in proposal.entries
    ]
