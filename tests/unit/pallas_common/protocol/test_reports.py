"""What a worker reports, read by one who does not trust it: what is returned is as typed as its class says."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_common.protocol.reports import (
    DownstreamHealth,
    FailedReport,
    HealthReport,
    Heartbeat,
    ProviderHealth,
    ReadyReport,
    Report,
    StageReport,
    decode_report,
    encode_report,
)

REPORTS: list[Report] = [
    StageReport(stage="importing"),
    ReadyReport(model=None, capabilities=None),
    ReadyReport(model="a.b", capabilities=ModelCapabilities(vision=True)),
    FailedReport(message="grüß", permanent=True),
    HealthReport(status="ok", timestamp="now"),
    HealthReport(
        status="degraded",
        timestamp="now",
        message="no library",
        downstreams=(DownstreamHealth(name="library", up=False, latency=1, error="e", checked="c"),),
        provider=ProviderHealth(name="openai", up=True),
    ),
    Heartbeat(interval=5.0),
]


@pytest.mark.parametrize("report", REPORTS)
def test_what_is_written_is_read(report: Report) -> None:
    assert decode_report(encode_report(report)) == report


@pytest.mark.parametrize(
    "line",
    [
        *(
            b'{"kind": "health", "status": "ok", "timestamp": "now", "downstreams": %s}' % value
            for value in (b"[[1]]", b'"library"', b"[null]", b"[{}]", b'{"a": 1}')
        ),
        b'{"kind": "health"}',
        b'{"kind": ["stage"], "stage": "importing"}',
        b'{"kind": {"stage": 1}, "stage": "importing"}',
        b'{"kind": "stage", "stage": "importing", "more": 1}',
        b"[" * 60_000,
        b'{"kind": "stage", "stage": ' + b"[" * 60_000,
        b'{"kind": "stage", "stage": "flying"}',
        b'{"kind": "stage", "stage": ["importing"]}',
        *(
            b'{"kind": "heartbeat", "interval": %s}' % value
            for value in (b"0", b"-1", b"1e-9", b"NaN", b"Infinity", b"1e999", b"true", b'"5"', b"null")
        ),
        b'{"kind": "heartbeat", "interval": ' + b"9" * 4_000 + b"}",
        b'{"kind": "heartbeat", "interval": ' + b"9" * 5_000 + b"}",
        b'{"kind": "failed", "message": 5, "permanent": true}',
        b'{"kind": "failed", "message": "m", "permanent": 1}',
        b'{"kind": "ready", "model": ["m"], "capabilities": null}',
        b'{"kind": "ready", "model": null, "capabilities": {"vision": "yes"}}',
        b"",
        b"\xff\xfe",
        b"null",
        b"5",
    ],
)
def test_what_is_no_report_is_refused_in_a_few_words(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        decode_report(line)
    assert len(str(raised.value)) < 200


def test_a_refusal_says_what_and_where() -> None:
    report = json.loads(encode_report(REPORTS[5]))
    report["downstreams"][0]["latency"] = "long"
    with pytest.raises(ValueError, match=r"^downstreams\[0\]\.latency: 'long' is not float$"):
        decode_report(json.dumps(report).encode())
    with pytest.raises(ValueError, match=r"^interval: True is not float$"):
        decode_report(b'{"kind": "heartbeat", "interval": true}')
    with pytest.raises(ValueError, match=r"^interval: 0 is below 0\.1$"):
        decode_report(b'{"kind": "heartbeat", "interval": 0}')


def test_what_cannot_be_written_is_no_part_of_a_text() -> None:
    report = decode_report(b'{"kind": "failed", "message": "half \\ud83d of one", "permanent": false}')
    assert report == FailedReport(message="half ? of one", permanent=False)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A report of which one value, at any depth, is another one or missing."""
    fields: Any = json.loads(encode_report(draw(st.sampled_from(REPORTS))))
    place: Any = fields
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        if draw(st.integers(0, 4)):
            place[key] = draw(ANY)
        else:
            del place[key]
        return json.dumps(fields).encode()


@settings(max_examples=300)
@given(spoilt())
def test_whatever_is_written_what_is_returned_is_as_its_class_says(line: bytes) -> None:
    try:
        report = decode_report(line)
    except ValueError:
        return
    assert_typed(report)
    encode_report(report).decode()


def assert_typed(value: Any) -> None:
    for name, kind in typing.get_type_hints(type(value)).items():
        assert_fits(getattr(value, name), kind)


def assert_fits(value: Any, kind: Any) -> None:
    if dataclasses.is_dataclass(kind):
        assert type(value) is kind
        assert_typed(value)
    elif typing.get_origin(kind) is tuple:
        assert type(value) is tuple
        for item in value:
            assert_fits(item, typing.get_args(kind)[0])
    elif typing.get_origin(kind) is typing.Literal:
        assert value in typing.get_args(kind)
    elif typing.get_args(kind):  # or None
        if value is not None:
            assert_fits(value, typing.get_args(kind)[0])
    else:
        assert type(value) is kind
        assert kind is not float or math.isfinite(value)
        if kind is str:
            value.encode()
