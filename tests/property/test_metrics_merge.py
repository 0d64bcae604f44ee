"""The merge of values files against prometheus_client's own, which reads everything anew: equal after parsing."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pallas_registry.exposition import OPENMETRICS, TEXT, page
from pallas_registry.merged_files import MergedFiles

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


@st.composite
def writes(draw: st.DrawFn) -> Write:
    kind = draw(st.sampled_from(KINDS))
    family = f"pallas_{kind}_{draw(st.sampled_from('xy'))}"
    labels = dict(draw(st.sampled_from(LABELS)))
    sample = family
    if kind == "counter":
        sample += "_total"
    elif kind == "histogram":
        sample += draw(st.sampled_from(["_sum", "_bucket", "_bucket"]))
        if sample.endswith("_bucket"):
            labels["le"] = draw(st.sampled_from(BOUNDS))
    elif kind == "summary":
        sample += draw(st.sampled_from(["_sum", "_count"]))
    key = mmap_key(family, sample, list(labels), list(labels.values()), 'Some "help" \\ in\ntwo lines.')
    writer = draw(st.sampled_from(WRITERS))
    return Write(kind, writer, key, draw(VALUES), draw(st.sampled_from([0.0, 1.0, 2.0, 3.0])))


class Stock:
    """What prometheus_client makes of the files, without families of which there is no sample."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = [str(file) for file in sorted(files)]

    def collect(self) -> Any:
        merged: Any = MultiProcessCollector.merge(self.files)  # type: ignore[no-untyped-call]
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


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(writes(), max_size=12), min_size=1, max_size=4))
def test_merging_equals_prometheus_clients_own(rounds: list[list[Write]]) -> None:
    """Scrape after scrape, while series and files come and values change."""
    with tempfile.TemporaryDirectory() as directory:
        merged = MergedFiles(directory)
        files: dict[str, MmapedDict] = {}
        for round_ in rounds:
            for write in round_:
                name = f"{write.kind}_{write.writer}.db"
                if name not in files:
                    files[name] = MmapedDict(f"{directory}/{name}")
                files[name].write_value(write.key, write.value, write.timestamp)
            merged.read({"a1", "a2", "a10"})
            found = merged.families()
            stock: Any = Stock(Path(directory).iterdir())
            assert families(parse_text(page(found, TEXT).decode())) == families(
                parse_text(generate_latest(stock).decode())
            )
            assert lines(page(found, OPENMETRICS)) == lines(generate_openmetrics(stock))
        for file in files.values():
            file.close()
