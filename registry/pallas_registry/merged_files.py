"""All values files of a directory as the families of one scrape; what was parsed once is kept from scrape to scrape.

Reads the disk and changes nothing on it. Whatever is wrong with a file costs that file's series and one warning.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_registry.exposition import Family, encoded, number, sample_prefix
from pallas_registry.logs import get_logger
from pallas_registry.merging import Value, merge
from pallas_registry.metric_slots import FOLDED, SlotFile, parse_name
from pallas_registry.shard import FAST, Shard
from pallas_registry.values_file import DamagedError, ValuesFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from pallas_registry.merging import Labels, Merged

ENDINGS = (".lock", ".new", ".damaged")
"""How other files that belong into the directory end."""

_log = get_logger("pallas.metrics")


class _Source:
    """A file of the directory, with what its name says."""

    def __init__(self, path: str, inode: int, named: SlotFile) -> None:
        self.inode = inode
        self.named = named
        self.file = ValuesFile(path)
        self._places: dict[str, list[int]] = {}
        self._looked = 0

    def places(self) -> dict[str, list[int]]:
        """Where the series of each metric stand."""
        for place in range(self._looked, len(self.file.series)):
            self._places.setdefault(self.file.series[place].family, []).append(place)
        self._looked = len(self.file.series)
        return self._places


@dataclass(slots=True)
class _Plan:
    """How one family is made."""

    kind: str
    help: str
    sources: list[_Source] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    """Of the sources, when the text was made."""
    text: bytes = b""
    prefixes: dict[tuple[str, Labels], str] = field(default_factory=dict)
    """What lines begin with, where they are not a shard's."""

    def is_separate(self, name: str) -> bool:
        """Whether no series of the family can be in two shards, so that their texts are the family's."""
        if len(self.shards) == 1:
            return True
        agents = [agent for shard in self.shards for agent in shard.agents[name]]
        return None not in agents and len(agents) == len(set(agents))


class MergedFiles:
    """Reads the directory for scrape after scrape. For one thread at a time."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = str(directory)
        self._names: dict[str, SlotFile | None] = {}
        self._sources: dict[str, _Source] = {}
        self._shards: dict[tuple[str, str], Shard] = {}
        self._plans: dict[str, _Plan] = {}
        self._layout: list[tuple[_Source, int]] = []
        self.strangers: set[str] = set()
        """Names in the directory that are no files of the agents that were asked for."""
        self._told: set[tuple[str, int]] = set()
        self._told_kinds: set[str] = set()
        self._lost = False

    def read(self, agents: Collection[str]) -> None:
        """Take in what all files of these agents say now.

        Args:
            agents: what the names of their slots begin with.
        """
        sources = {}
        strangers = set()
        told = set()
        for entry in self._entries():
            named = self._names[entry.name]
            if named is None or named.agent not in agents:
                if not entry.name.endswith(ENDINGS):
                    strangers.add(entry.name)
                continue
            source = self._sources.get(entry.name)
            if source is None or source.inode != entry.inode():
                source = _Source(entry.path, entry.inode(), named)
            try:
                if not entry.is_file(follow_symlinks=False):
                    raise DamagedError("it is no regular file")  # noqa: TRY301 - told like all the rest
                source.file.read()
            except FileNotFoundError:  # its agent is being removed, or its process has ended
                continue
            except (OSError, DamagedError) as error:
                told.add((entry.name, entry.inode()))
                if (entry.name, entry.inode()) not in self._told:
                    _log.warning("%s is left out of the metrics: %s", entry.path, error)
            else:
                sources[entry.name] = source
        self._sources, self._told, self.strangers = sources, told, strangers

    @property
    def children(self) -> list[tuple[str, SlotFile]]:
        """Files of processes that workers forked, as `read` found them: path and name."""
        return [
            (source.file.path, source.named)
            for source in self._sources.values()
            if source.named.child not in (None, FOLDED)
        ]

    def forget(self, names: Collection[str]) -> None:
        """Files of these names are gone: one that comes to have such a name is another."""
        for name in names:
            self._sources.pop(name, None)

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._directory) as scan:
                found = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            if not self._lost:
                _log.warning("the workers' metrics cannot be read: %s", error)
            self._lost = True
            found = []
        else:
            self._lost = False
        self._names = {
            entry.name: self._names[entry.name] if entry.name in self._names else parse_name(entry.name)
            for entry in found
        }
        return found

    def families(self) -> list[Family]:
        """What was read, merged, as text."""
        self._lay_out()
        for shard in self._shards.values():
            shard.update()
        return [found for name in sorted(self._plans) if (found := self._family(name)).lines]

    def _lay_out(self) -> None:
        """Find out again what belongs together, if a file or a series is there that was not, or is not any more."""
        layout = [(source, len(source.file.series)) for source in self._sources.values()]
        if layout == self._layout:
            return
        self._layout = layout
        plans: dict[str, _Plan] = {}
        groups: dict[tuple[str, str], list[_Source]] = {}
        for source in self._sources.values():
            kind = source.named.kind
            for name, places in source.places().items():
                plan = plans.setdefault(name, _Plan(kind, source.file.series[places[0]].help))
                if plan.kind == kind:
                    plan.sources.append(source)
                elif name not in self._told_kinds:
                    self._told_kinds.add(name)
                    _log.warning("%s: there is a metric %s of another kind", source.file.path, name)
            if kind in FAST and source.file.series:
                groups.setdefault((source.named.agent, kind), []).append(source)
        self._shards = {place: self._shard(place, sources) for place, sources in groups.items()}
        for shard in self._shards.values():
            for name in shard.agents:
                if plans[name].kind == shard.kind:
                    plans[name].shards.append(shard)
        self._plans = plans

    def _shard(self, place: tuple[str, str], sources: list[_Source]) -> Shard:
        files = [source.file for source in sources]
        shard = self._shards.get(place)
        return shard if shard is not None and shard.fits(files) else Shard(place[1], files)

    def _family(self, name: str) -> Family:
        plan = self._plans[name]
        versions = [source.file.version for source in plan.sources]
        if versions != plan.versions:
            plan.versions, plan.text = versions, self._text(name, plan)
        return Family(name, plan.kind.partition("_")[0], plan.help, plan.text)

    def _text(self, name: str, plan: _Plan) -> bytes:
        if plan.kind in FAST and plan.is_separate(name):
            return b"".join(shard.lines[name] for shard in plan.shards)
        lines = []
        for of, value in merge(plan.kind, _values(name, plan.sources)).items():
            prefix = plan.prefixes.get(of)
            if prefix is None:
                prefix = plan.prefixes[of] = sample_prefix(*of)
            lines.append(f"{prefix}{number(value)}\n")
        return encoded("".join(lines))

    def merged(self, names: Collection[str] = ()) -> Iterator[tuple[Family, Merged]]:
        """What was read, merged, as numbers; the families have no text.

        Args:
            names: the metrics that are wanted, a counter's without `_total`; all if empty.
        """
        self._lay_out()
        for name in sorted(names or self._plans):
            if (plan := self._plans.get(name)) is not None:
                family = Family(name, plan.kind.partition("_")[0], plan.help, b"")
                yield family, merge(plan.kind, _values(name, plan.sources))


def _values(name: str, sources: list[_Source]) -> Iterator[Value]:
    for source in sources:
        file = source.file
        timestamps = file.timestamps if source.named.kind.startswith("gauge") else file.values
        for place in source.places()[name]:
            yield Value(file.series[place], file.values[place], timestamps[place], source.named.writer)
