"""All values files of a directory as the families of one scrape; what was parsed once is kept from scrape to scrape.

Reads the disk and changes nothing on it. Whatever is wrong with a file costs that file's series and one warning.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_common.logs.setup import get_logger
from pallas_common.metrics.agent_series import AgentSeries
from pallas_common.metrics.exposition import Family, encoded, number, sample_prefix
from pallas_common.metrics.file_names import FOLDED, SlotFile, parse_name
from pallas_common.metrics.merge import Value, merge
from pallas_common.metrics.mmap_file import MAX_BYTES, DamagedError, ValuesFile
from pallas_common.metrics.series_cache import FAST, Shard
from pallas_common.metrics.served_series import KINDS, LIVE_GAUGES, TakenNames, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from pallas_common.metrics.merge import Labels, Merged

ENDINGS = (".lock", ".new", ".damaged")
"""How other files that belong into the directory end."""

_log = get_logger("pallas.metrics")


class Source:
    """A file of the directory, with what its name says."""

    def __init__(self, path: str, inode: int, named: SlotFile, agent: AgentSeries) -> None:
        self.inode = inode
        self.named = named
        self.agent = agent
        self.file = ValuesFile(path, parse=lambda key: agent.take(named.kind, key))
        self._places: dict[str, list[int]] = {}
        self._looked = 0

    def places(self) -> dict[str, list[int]]:
        """Where the series of each metric stand that are served."""
        for place in range(self._looked, len(self.file.series)):
            if (series := self.file.series[place]) is not None:
                self._places.setdefault(series.family, []).append(place)
        self._looked = len(self.file.series)
        return self._places

    def help(self, metric: str) -> str:
        """What it says of a metric of which it has series."""
        series = self.file.series[self.places()[metric][0]]
        return "" if series is None else series.help


@dataclass(slots=True)
class _Plan:
    """How one family is made."""

    kind: str
    help: str
    sources: list[Source] = field(default_factory=list)
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
        self._agents: dict[str, AgentSeries] = {}
        self._sources: dict[str, Source] = {}
        self._shards: dict[tuple[str, str], Shard] = {}
        self._plans: dict[str, _Plan] = {}
        self._layout: tuple[list[str], list[tuple[Source, int]]] | None = None
        self._taken = TakenNames()
        self.strangers: set[str] = set()
        """Names in the directory that are no files of the agents that were asked for."""
        self.children: list[tuple[str, SlotFile]] = []
        """Files of processes that workers forked, sound or not: path and name."""
        self.missing: list[Source] = []
        """Files that were there, and were removed without a reason; what they said is still served."""
        self.left_out: dict[str, int] = {}
        """By agent, how many series of its files are not served, as `families` last found."""
        self.is_gone = False
        """Whether there is no such directory."""
        self._reported: set[tuple[str, int]] = set()

    def read(self, agents: Mapping[str, str | None], live: Collection[str] = ()) -> None:
        """Take in what all files of these agents say now.

        Args:
            agents: the agent's name by what the names of its slots begin with; None to let it have all names.
            live: slots whose writers live: what they said of themselves is still true when the file is missing.
        """
        self._agents = {
            own: known
            if (known := self._agents.get(own)) is not None and known.owner == name
            else AgentSeries(name)
            for own, name in agents.items()
        }
        sources = {}
        strangers = set()
        reported = set()
        vanished = set()
        self.children = []
        for entry in self._entries():
            named = self._names[entry.name]
            if named is None or (agent := self._agents.get(named.agent)) is None:
                if not entry.name.endswith(ENDINGS):
                    strangers.add(entry.name)
                continue
            if named.child not in (None, FOLDED):
                self.children.append((entry.path, named))
            source = self._sources.get(entry.name)
            if source is None or source.inode != entry.inode() or source.agent is not agent:
                source = Source(entry.path, entry.inode(), named, agent)
            try:
                if not entry.is_file(follow_symlinks=False):
                    raise DamagedError("it is no regular file")  # noqa: TRY301 - reported like all the rest
                source.file.read()
            except FileNotFoundError:  # its agent is being removed, or its process has ended
                vanished.add(entry.name)
            except Exception as error:  # noqa: BLE001 - whatever is in one agent's file, others are served
                reported.add((entry.name, entry.inode()))
                if (entry.name, entry.inode()) not in self._reported:
                    thing = f"file {entry.name} {entry.inode()}"
                    agent.warn(thing, f"{entry.path} is left out of the metrics: {error}")
            else:
                sources[entry.name] = source
                if source.file.is_full:
                    thing = f"size {entry.name}"
                    agent.warn(thing, f"{entry.path} has more than {MAX_BYTES} bytes: the rest is left out")
        self._hold_missing(sources, vanished, live)
        self._sources, self._reported, self.strangers = sources, reported, strangers

    def _hold_missing(self, sources: dict[str, Source], vanished: set[str], live: Collection[str]) -> None:
        """Go on with what was read of files that are not there any more, unless they went with their process."""
        self.missing = []
        if not vanished and self._sources.keys() <= self._names.keys():
            return
        for name, source in self._sources.items():
            named = source.named
            if name in self._names and name not in vanished:
                continue
            ended = named.child not in (None, FOLDED) or (
                named.kind in LIVE_GAUGES and named.slot not in live
            )
            if not ended and self._agents.get(named.agent) is source.agent:
                source.inode = -1  # the next one of this name is another file, whatever its number
                sources[name] = source
                self.missing.append(source)

    def of_slot(self, slot: str) -> list[Source]:
        """Files of the slot's workers themselves, as `read` found them."""
        return [
            source
            for source in self._sources.values()
            if source.named.slot == slot and source.named.child is None
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
            if not self.is_gone:
                _log.warning(f"the workers' metrics cannot be read: {error}")
            self.is_gone = True
            found = []
        else:
            self.is_gone = False
        self._names = {
            entry.name: self._names[entry.name] if entry.name in self._names else _named(entry.name)
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
        layout = list(self._agents), [(source, len(source.file.series)) for source in self._sources.values()]
        if layout == self._layout:
            return
        self._layout = layout
        taken = self._settle_names()
        plans: dict[str, _Plan] = {}
        groups: dict[tuple[str, str], list[Source]] = {}
        self.left_out = {agent.owner: 0 for agent in self._agents.values() if agent.owner is not None}
        for source in self._sources.values():
            kind = source.named.kind
            served = 0
            for name, places in source.places().items():
                if (name, kind) not in taken:
                    plans.setdefault(name, _Plan(kind, source.help(name))).sources.append(source)
                    served += len(places)
            if source.agent.owner is not None:
                self.left_out[source.agent.owner] += len(source.file.series) - served
            if kind in FAST and source.file.series:
                groups.setdefault((source.named.agent, kind), []).append(source)
        self._shards = {place: self._shard(place, sources) for place, sources in groups.items()}
        for shard in self._shards.values():
            for name in shard.agents:
                if (plan := plans.get(name)) is not None and plan.kind == shard.kind:
                    plan.shards.append(shard)
        self._plans = plans

    def _settle_names(self) -> Collection[tuple[str, str]]:
        """Name and kind of each metric that is left out, because another one has a name that it would have."""
        of_agents: dict[AgentSeries, list[Source]] = {agent: [] for agent in self._agents.values()}
        for source in self._sources.values():
            of_agents[source.agent].append(source)
        metrics: dict[tuple[str, str], list[AgentSeries]] = {}
        for (
            agent,
            sources,
        ) in of_agents.items():  # in the agents' order, so that the first one has the first choice
            for source in sources:
                for name in source.places():
                    metrics.setdefault((name, source.named.kind), []).append(agent)
            if agent.is_full and agent.keep(
                {(source.named.kind, key) for source in sources for key in source.file.keys}
            ):
                for source in sources:
                    if None in source.file.series:
                        source.inode = -1  # to be read anew: there is room for what was one too many
        taken = self._taken.settle(metrics)
        for (name, kind), other in taken.items():
            for agent in metrics[name, kind]:
                message = (
                    f"its metric {shown(name)} is left out of the metrics: another one has the name {other}"
                )
                agent.warn(name, message)
        return taken

    def _shard(self, place: tuple[str, str], sources: list[Source]) -> Shard:
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


def _values(name: str, sources: list[Source]) -> Iterator[Value]:
    for source in sources:
        file = source.file
        timestamps = file.timestamps if source.named.kind.startswith("gauge") else file.values
        for place in source.places()[name]:
            if (series := file.series[place]) is not None:
                yield Value(series, file.values[place], timestamps[place], source.named.writer)


def _named(name: str) -> SlotFile | None:
    """What the name says, if it is that of a values file."""
    named = parse_name(name)
    return named if named is not None and named.kind in KINDS else None
