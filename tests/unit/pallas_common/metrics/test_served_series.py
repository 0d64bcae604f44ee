"""What of agents' series is served: nothing that another has a right to, nothing that breaks a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.mmap_dict import mmap_key
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pallas_common.metrics import agent_series
from pallas_common.metrics.agent_series import MAX_WARNINGS, AgentSeries
from pallas_common.metrics.exposition import OPENMETRICS, TEXT, page
from pallas_common.metrics.mmap_file import MAX_BYTES, encode
from pallas_common.metrics.reader import MergedFiles
from pallas_common.metrics.served_series import (
    KINDS,
    MAX_KEY,
    WORKER_METRICS,
    RefusedError,
    TakenNames,
    checked,
    names_taken,
)
from pallas_worker.telemetry import metrics
from support.data.exposition import MmapedDict, parse_openmetrics
from support.fleet.promtool import promtool

if TYPE_CHECKING:
    from pathlib import Path

type Entry = tuple[str, str, dict[str, str], float]
"""Metric, sample, labels, value."""

OWNERS = {"a1": "good", "a2": "rude"}
LABELLED = {"agent": "good"}


def key(metric: str, sample: str, labels: dict[str, str], text: str = "Some.") -> bytes:
    return mmap_key(metric, sample, list(labels), list(labels.values()), text).encode()


def write(directory: Path, kind: str, slot: str, *entries: Entry) -> None:
    """One values file."""
    content = encode((key(metric, sample, labels), value, 1.0) for metric, sample, labels, value in entries)
    (directory / f"{kind}_{slot}.db").write_bytes(content)


class Reader:
    """Scrape after scrape of one directory; each page parses in both formats."""

    def __init__(self, directory: Path) -> None:
        self.files = MergedFiles(directory)

    def scrape(self) -> set[str]:
        """The lines of samples."""
        self.files.read(OWNERS)
        families = self.files.families()
        text = page(families, TEXT).decode()
        list(parse_text(text))
        assert "error while linting" not in (found := promtool("check", "metrics", given=text)), found
        list(parse_openmetrics(page(families, OPENMETRICS).decode()))
        return {line for line in text.splitlines() if not line.startswith("#")}


def test_the_workers_metrics_are_those_that_are_taken_from_workers() -> None:
    made = metrics.make_series()
    found = {
        metric._name: (
            f"gauge_{metric._multiprocess_mode}" if metric._type == "gauge" else metric._type,
            frozenset(metric._labelnames),
        )
        for metric in (getattr(made, name) for name in made.__slots__ if name != "files")
    }
    assert found == WORKER_METRICS


@pytest.mark.parametrize(
    ("kind", "metric", "sample", "labels", "why"),
    [
        ("counter", "pallas_send_message", "_total", {"agent": "good", "outcome": "ok"}, "label agent"),
        ("counter", "pallas_send_message", "_total", {"agent": "rude"}, "other labels"),
        ("gauge_all", "pallas_send_message", "", {"agent": "rude", "outcome": "ok"}, "another type"),
        ("gauge_all", "pallas_up", "", {}, "begin with pallas_"),
        ("gauge_all", "pallas.up", "", {}, "begin with pallas_"),
        ("counter", "pallas-new", "_total", {"agent": "rude"}, "begin with pallas_"),
        ("counter", "jobs", "_total", {"agent": "good"}, "label agent"),
        ("counter", "jobs", "_total", {"http.method": "GET", "http_method": "PUT"}, "two of its labels"),
        ("counter", "jobs", "_total", {"__name__": "pallas_up"}, "must not be called"),
        ("counter", "jobs", "_total", {"._name__": "pallas_up"}, "must not be called"),
        ("counter", "jobs", "_total", {"": "x"}, "must not be called"),
        ("counter", "jobs", "_created", {}, "no sample"),
        ("counter", "jobs", "", {}, "no sample"),
        ("gauge_sum", "jobs", "_total", {}, "no sample"),
        ("gauge_all", "", "", {}, "no name"),
        ("gauge_liveall", "jobs", "", {"pid": "1"}, "label pid"),
        ("histogram", "jobs", "_count", {}, "no sample"),
        ("histogram", "jobs", "_bucket", {}, "no number"),
        ("histogram", "jobs", "_bucket", {"le": "much"}, "no number"),
        ("histogram", "jobs", "_bucket", {"le": "nan"}, "no number"),
        ("histogram", "jobs", "_bucket", {"le": "-inf"}, "no number"),
        ("histogram", "jobs", "_sum", {"le": "1"}, "for buckets"),
        ("summary", "jobs", "_sum", {"quantile": "0.5"}, "quantile"),
        ("counter", "jobs", "_total", {"x": "x" * MAX_KEY}, "bytes"),
    ],
)
def test_what_must_not_be_served_is_refused(
    kind: str, metric: str, sample: str, labels: dict[str, str], why: str
) -> None:
    with pytest.raises(RefusedError, match=why):
        checked(kind, key(metric, metric + sample, labels), "rude")


@pytest.mark.parametrize(
    "found", [b"nope", b"[1,2,3]", b"[" * 8000, b'["a","a",{"b":1},"h"]', b"\xff\xfe", b'"a"']
)
def test_a_key_that_is_none_is_refused(found: bytes) -> None:
    with pytest.raises(RefusedError, match="a key is none"):
        checked("counter", found, "rude")


def test_names_and_text_are_as_a_page_can_say_them() -> None:
    found = checked(
        "counter", key("jobs.done", "jobs.done_total", {"http.method": "\ud800", "agent": "good"}), "good"
    )
    assert found.labels == (("agent", "good"), ("http_method", "?"))


def test_names_are_those_of_both_formats() -> None:
    assert names_taken("jobs.done", "counter") == {"jobs_done", "jobs_done_total", "jobs_done_created"}
    assert names_taken("x", "histogram") == {"x", "x_bucket", "x_sum", "x_count", "x_created"}
    assert names_taken("x", "gauge_all") == {"x"}


def test_who_had_a_name_first_keeps_it_while_it_is_there() -> None:
    names = TakenNames()
    counter, gauge = ("jobs", "counter"), ("jobs", "gauge_all")
    assert names.settle([gauge]) == {}
    assert names.settle([counter, gauge]) == {counter: "jobs"}
    assert names.settle([counter, gauge]) == {counter: "jobs"}
    assert names.settle([counter]) == {}
    assert names.settle([gauge, counter]) == {gauge: "jobs"}


def test_no_name_of_one_agent_breaks_the_page_or_touches_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(
        tmp_path,
        "counter",
        "a1s0",
        ("pallas_send_message", "pallas_send_message_total", {**LABELLED, "outcome": "ok"}, 3.0),
        ("jobs", "jobs_total", LABELLED, 5.0),
    )
    write(tmp_path, "histogram", "a1s0", ("x", "x_bucket", {"le": "+Inf"}, 1.0), ("x", "x_sum", {}, 1.0))
    good = {
        'pallas_send_message_total{agent="good",outcome="ok"} 3.0',
        'jobs_total{agent="good"} 5.0',
        'x_bucket{le="+Inf"} 1.0',
        "x_count 1.0",
        "x_sum 1.0",
    }
    reader = Reader(tmp_path)
    assert reader.scrape() == good
    write(
        tmp_path,
        "counter",
        "a2s0",
        ("pallas_send_message", "pallas_send_message_total", {**LABELLED, "outcome": "ok"}, 1000.0),
        ("jobs", "jobs_total", LABELLED, 1000.0),
        ("jobs.done", "jobs.done_total", {}, 1.0),
        ("jobs_done", "jobs_done_total", {}, 2.0),
        ("seen", "seen_total", {"http.method": "GET", "http_method": "PUT"}, 1.0),
        ("x_bucket", "x_bucket_total", {}, 1.0),
    )
    suffixed: list[Entry] = [
        (f"x{suffix}", f"x{suffix}", {}, 9.0) for suffix in ("_bucket", "_count", "_sum", "_created")
    ]
    gauges: list[Entry] = [("pallas.up", "pallas.up", {}, 7.0), ("jobs_total", "jobs_total", {}, 9.0)]
    write(tmp_path, "gauge_max", "a2s0", *gauges, *suffixed, ("x_info", "x_info", {}, 1.0))
    write(tmp_path, "summary", "a2s0", ("jobs", "jobs_sum", {}, 1.0), ("jobs", "jobs_count", {}, 1.0))
    write(tmp_path, "zzz", "a2s0", ("unheard", "unheard", {}, 1.0))
    for _ in range(3):
        assert reader.scrape() == {*good, "jobs_done_total 1.0", "x_info 1.0"}
    assert reader.files.left_out == {"good": 0, "rude": 13}
    for name in ("pallas_send_message", "jobs", "jobs_done", "seen", "pallas.up", "x_count", "x_created"):
        told = [r.getMessage() for r in caplog.records if f"'{name}' is left out" in r.getMessage()]
        assert len(told) == 1, (name, told)
        assert told[0].startswith("rude: ")


def test_types_and_help_that_differ_break_nothing(tmp_path: Path) -> None:
    """The agent that comes first in the configuration has the first choice, whatever files are called."""
    write(tmp_path, "gauge_max", "a1s0", ("jobs", "jobs", {}, 1.0))
    content = [(key("jobs", "jobs_total", {}, "First\nline \\ and\r\0more"), 1.0, 0.0)]
    (tmp_path / "counter_a2s0.db").write_bytes(encode(content))
    content = [(key("more", "more_total", {"agent": "rude"}, "Help\n\\ of \ud800"), 1.0, 0.0)]
    (tmp_path / "counter_a2s1.db").write_bytes(encode(content))
    write(tmp_path, "counter", "a1s1", ("more", "more_total", {"agent": "good"}, 1.0))
    found = Reader(tmp_path).scrape()
    assert found == {"jobs 1.0", 'more_total{agent="good"} 1.0', 'more_total{agent="rude"} 1.0'}


def test_values_and_labels_may_be_anything(tmp_path: Path) -> None:
    hostile = '\0\r\n"\\ \u202e\ud800}{,=' + "x" * 4000
    write(
        tmp_path,
        "gauge_max",
        "a2s0",
        *[("odd", "odd", {"v": value}, float(value)) for value in ("nan", "inf", "-inf", "1e308", "-0.0")],
        ("odd", "odd", {"v": hostile}, 1.0),
    )
    write(tmp_path, "counter", "a1s0", ("jobs", "jobs_total", LABELLED, 5.0))
    found = Reader(tmp_path).scrape()
    assert 'jobs_total{agent="good"} 5.0' in found
    assert {'odd{v="nan"} NaN', 'odd{v="-inf"} -Inf'} <= found


def test_endless_series_of_one_agent_end_somewhere_and_cost_others_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_series, "MAX_SERIES", 500)
    monkeypatch.setattr(agent_series, "MAX_OF_METRIC", 250)
    own: Entry = ("pallas_llm_turns", "pallas_llm_turns_total", {"agent": "rude", "model": "m"}, 1.0)

    def many(metric: str, count: int) -> list[Entry]:
        return [(metric, f"{metric}_total", {"n": str(n)}, 1.0) for n in range(count)]

    def told(what: str) -> int:
        return len([record for record in caplog.records if what in record.getMessage()])

    write(tmp_path, "counter", "a1s0", ("jobs", "jobs_total", LABELLED, 5.0))
    write(tmp_path, "counter", "a2s0", *many("requests", 1000))
    reader = Reader(tmp_path)
    first = reader.scrape()
    assert len(first) == 1 + 250
    write(tmp_path, "counter", "a2s1", *many("users", 200), *many("rooms", 1000), own)
    for _ in range(2):
        found = reader.scrape()
        assert first <= found
        assert len(found) == 1 + 250 + 200 + 50 + 1
        assert 'pallas_llm_turns_total{agent="rude",model="m"} 1.0' in found
    assert told("'requests' has more than 250 series") == told("more than 500 series") == 1
    (tmp_path / "counter_a2s0.db").unlink()
    reader.files.forget(["counter_a2s0.db"])
    reader.scrape()
    write(tmp_path, "counter", "a2s2", *many("halls", 30))
    assert 'halls_total{n="29"} 1.0' in reader.scrape()


def test_series_that_have_gone_keep_no_room_from_those_that_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_series, "MAX_OF_METRIC", 250)
    reader = Reader(tmp_path)
    for begin in (0, 1000, 2000):  # a start of the agent each, with gauges that go with their process
        entries = [("open", "open", {"n": str(n)}, 1.0) for n in range(begin, begin + 200)]
        write(tmp_path, "gauge_livemax", f"a2s{begin}", *entries)
        reader.scrape()
        found = reader.scrape()
        assert found == {f'open{{n="{n}"}} 1.0' for n in range(begin, begin + 200)}
        (tmp_path / f"gauge_livemax_a2s{begin}.db").unlink()


def test_of_a_huge_file_the_beginning_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = MmapedDict(str(tmp_path / "counter_a2s0.db"))
    text = "x" * 4000
    reader = Reader(tmp_path)
    last: set[str] = set()
    for begin, end in ((0, 100), (100, 2000), (2000, 4000)):
        for number in range(begin, end):
            file.write_value(mmap_key("jobs", "jobs_total", ["n"], [str(number)], text), 1.0, 0.0)
        found = reader.scrape()
        assert found >= last
        last = found
    file.write_value(mmap_key("jobs", "jobs_total", ["n"], ["0"], text), 2.0, 0.0)
    file.close()
    assert MAX_BYTES / 4200 < len(last) < 4000
    assert 'jobs_total{n="0"} 2.0' in reader.scrape()
    assert len([r for r in caplog.records if "the rest is left out" in r.getMessage()]) == 1
    with (tmp_path / "counter_a1s0.db").open("wb") as sparse:
        sparse.write((2**31 - 8).to_bytes(4, "little"))
        sparse.truncate(2**40)
    assert len(reader.scrape()) == len(last)


def test_warnings_about_one_agent_end_somewhere(caplog: pytest.LogCaptureFixture) -> None:
    series = AgentSeries("rude")
    for number in range(1000):
        assert series.take("counter", key(f"pallas_{number}\n\u202e{'x' * 500}", "x", {})) is None
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == MAX_WARNINGS + 1
    assert all(message.isprintable() and len(message) < 300 for message in messages)


PIECES = st.sampled_from(
    [
        "jobs",
        "jobs_total",
        "jobs.total",
        "jobs_bucket",
        "jobs_sum",
        "jobs_count",
        "_created",
        "",
        "pallas_up",
        "9",
        ":",
    ]
)
LABELS = st.dictionaries(
    st.sampled_from(["agent", "le", "quantile", "pid", "a.b", "a_b", "__name__", ".x", ""]),
    st.sampled_from(["good", "rude", "1", "+Inf", "nan", "\ud800", "\n", ""]),
    max_size=3,
)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(KINDS)),
            st.sampled_from(["a1s0", "a2s0", "a2s0.p0"]),
            st.tuples(PIECES, PIECES, LABELS, st.floats()),
        ),
        max_size=25,
    )
)
def test_no_page_has_a_name_or_a_series_twice(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, str, Any]]
) -> None:
    directory = tmp_path_factory.mktemp("files")
    files: dict[tuple[str, str], list[Entry]] = {}
    for kind, slot, (metric, sample, labels, value) in writes:
        suffix = {"counter": "_total", "histogram": "_bucket", "summary": "_sum"}.get(kind, "")
        files.setdefault((kind, slot), []).append(
            (metric, metric + suffix if sample else sample, labels, value)
        )
    for (kind, slot), entries in files.items():
        write(directory, kind, slot, *entries)
    merged = MergedFiles(directory)
    merged.read(OWNERS)
    families = merged.families()
    text = page(families, TEXT).decode()
    samples = [line.rpartition(" ")[0] for line in text.split("\n") if line and not line.startswith("#")]
    assert len(samples) == len(set(samples))
    types = [line.split()[2] for line in text.split("\n") if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    list(parse_text(text))
