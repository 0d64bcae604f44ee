"""The merge of values files against prometheus_client's own, which reads everything anew: equal after parsing."""

from __future__ import annotations

import itertools
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.mmap_dict import mmap_key
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pallas_common.metrics.exposition import OPENMETRICS, TEXT, page
from pallas_common.metrics.reader import MergedFiles
from support.data.exposition import MmapedDict, generate_openmetrics, merge

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = (
    "counter",
    "histogram",
    "summary",
    "gauge_livemostrecent",
    "gauge_livesum",
    "gauge_sum",
    "gauge_min",
    "gauge_livemax",
    "gauge_mostrecent",
    "gauge_all",
)
WRITERS = ("a1s0", "a1s1", "a1s0.p0", "a1s0.p77", "a2s0", "a10s0")
LABELS: tuple[dict[str, str], ...] = (
    {},
    {"agent": "research"},
    {"agent": "jarvis", "server": 'a "quoted" \\ name\nof two lines'},
    {"agent": "research", "server": "argos"},
    {"agent": "jarvis", "server": "ärger, {}="},
    {"provider": "openai"},
)
BOUNDS = ("0.005", "1.0", "2.5", "10.0", "1e+06", "+Inf")
VALUES = st.one_of(
    st.integers(0, 2**60).map(float), st.floats(allow_nan=False), st.just(math.nan), st.just(0.0)
)


class Write(NamedTuple):
    """One value in one file."""

    kind: str
    writer: str
    key: str
    value: float
    timestamp: float


def write(
    kind: str, writer: str, labels: dict[str, str], variant: int, value: float, timestamp: float
) -> Write:
    """A write to one of the samples that a metric of this kind has."""
    family, labels = f"shop_{kind}", dict(labels)
    samples = {"counter": ["_total"], "summary": ["_sum", "_count"]}.get(kind, [""])
    if kind == "histogram":
        samples = ["_sum", *(["_bucket"] * len(BOUNDS))]
        if variant % len(samples):
            labels["le"] = BOUNDS[variant % len(samples) - 1]
    sample = family + samples[variant % len(samples)]
    key = mmap_key(family, sample, list(labels), list(labels.values()), 'Some "help" \\ in\ntwo lines.')
    return Write(kind, writer, key, value, timestamp)


@st.composite
def rounds_of_writes(draw: st.DrawFn) -> list[list[Write]]:
    """Writes to few metrics, so that they meet."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
    label_sets = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=3))
    writes = st.builds(
        write,
        st.sampled_from(kinds),
        st.sampled_from(WRITERS),
        st.sampled_from(label_sets),
        st.integers(0, len(BOUNDS)),
        VALUES,
        st.sampled_from([0.0, 1.0, 2.0, 3.0]),
    )
    return draw(st.lists(st.lists(writes, max_size=15), min_size=1, max_size=4))


class Stock:
    """What prometheus_client makes of the files, without families of which there is no sample."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = [str(file) for file in sorted(files)]

    def collect(self) -> Any:
        merged: Any = merge(self.files)
        return [family for family in merged if family.samples]


def families(parsed: Iterable[Any]) -> dict[str, Any]:
    """What was parsed, in no order; numbers as text, so that NaN equals itself."""
    return {
        family.name: (
            family.type,
            family.documentation,
            {(s.name, tuple(sorted(s.labels.items()))): repr(s.value) for s in family.samples},
        )
        for family in parsed
    }


def lines(body: bytes) -> list[str]:
    """The lines in no order, numbers in one spelling: OpenMetrics' parser refuses counters that sank."""
    found = [line.rpartition(" ") for line in body.decode().splitlines()]
    return sorted(
        f"{line} {value}" if line[:1] == "#" else f"{line} {float(value)!r}" for line, _, value in found
    )


def check(rounds: Iterable[Iterable[Write]]) -> None:
    """Scrape after scrape, while series and files come and values change."""
    with tempfile.TemporaryDirectory() as directory:
        merged = MergedFiles(directory)
        files: dict[str, Any] = {}
        for round_ in rounds:
            for kind, writer, key, value, timestamp in round_:
                name = f"{kind}_{writer}.db"
                if name not in files:
                    files[name] = MmapedDict(f"{directory}/{name}")
                files[name].write_value(key, value, timestamp)
            merged.read({"a1": None, "a2": None, "a10": None})
            found = merged.families()
            stock: Any = Stock(Path(directory).iterdir())
            assert families(parse_text(page(found, TEXT).decode())) == families(
                parse_text(generate_latest(stock).decode())
            )
            assert lines(page(found, OPENMETRICS)) == lines(generate_openmetrics(stock))
        for file in files.values():
            file.close()


@settings(deadline=None, max_examples=60)
@given(rounds_of_writes())
def test_merging_equals_prometheus_clients_own(rounds: list[list[Write]]) -> None:
    check(rounds)


@pytest.mark.parametrize("label_sets", [LABELS, LABELS[1:2], LABELS[1:5]])
def test_merging_equals_prometheus_clients_own_where_every_writer_has_every_series(
    label_sets: tuple[dict[str, str], ...],
) -> None:
    rounds = []
    for step in range(3):
        places = itertools.product(
            KINDS, WRITERS[step * 2 :] + WRITERS[:1], label_sets, range(len(BOUNDS) + 1)
        )
        rounds.append(
            [
                write(*place, value=float(n % 17 + step), timestamp=float(n % 5))
                for n, place in enumerate(places)
            ]
        )
    check(rounds)
