"""Who wrote a worker's record, and when, is for the supervisor to say."""

from __future__ import annotations

import pytest

from pallas_common.times import timestamp
from pallas_supervisor.logs.attribution import FUTURE, PAST, Writer, attributed

NOW = 1_773_309_600.25
WRITER = Writer("research", 3, 42)
HONEST: dict[str, object] = {
    "time": timestamp(NOW - 0.5),
    "level": "WARNING",
    "logger": "pallas.worker.calls",
    "message": "m",
    "agent": "research",
    "pid": 42,
    "generation": 3,
    "request_id": "r",
    "exception": "E",
}


def test_an_honest_record_stays_as_it_is() -> None:
    assert attributed(HONEST, WRITER, NOW) == HONEST


def test_a_forged_origin_is_the_supervisors_word_beside_the_workers() -> None:
    forged = {**HONEST, "agent": "jarvis", "pid": 1, "generation": "x"}
    said = attributed(forged, WRITER, NOW)
    assert said == {**HONEST, "agent_": "jarvis", "pid_": 1, "generation_": "x"}


@pytest.mark.parametrize("missing", ["agent", "pid", "generation"])
def test_an_origin_that_is_not_told_is_put_in(missing: str) -> None:
    assert attributed({key: HONEST[key] for key in HONEST if key != missing}, WRITER, NOW) == HONEST


@pytest.mark.parametrize(
    "logger",
    [
        "pallas.supervisor",
        "pallas.supervisor.fleet",
        "pallas.output",
        "pallasctl",
        "",
        "x" * 300,
        5,
        ["a"],
        None,
    ],
)
def test_a_logger_that_is_no_workers_is_marked(logger: object) -> None:
    said = attributed({**HONEST, "logger": logger}, WRITER, NOW)
    assert said["logger"] == "pallas.output"
    assert said.get("logger_", "pallas.output") == logger


@pytest.mark.parametrize(
    "logger", ["pallas.worker", "pallas.forward.trace", "fast_agent", "pallas.supervisors"]
)
def test_a_logger_of_a_worker_stays(logger: str) -> None:
    said = attributed({**HONEST, "logger": logger}, WRITER, NOW)
    assert said["logger"] == logger
    assert "logger_" not in said


@pytest.mark.parametrize(
    "own",
    [
        *(timestamp(NOW - PAST - 1), timestamp(NOW + FUTURE + 1), "2026-03-12", "yesterday", "", None, 5.0),
        timestamp(NOW) + "\n",
        timestamp(NOW).replace("-", "٣", 1),
        timestamp(NOW)[:-1] + "+01:00",
    ],
)
def test_a_time_that_cannot_be_true_is_not_believed(own: object) -> None:
    said = attributed({**HONEST, "time": own}, WRITER, NOW)
    assert (said["time"], said["time_"]) == (timestamp(NOW), own)


@pytest.mark.parametrize("age", [-FUTURE / 2, 0.0, PAST / 2])
def test_a_time_that_can_be_true_is_kept(age: float) -> None:
    own = timestamp(NOW - age)
    assert attributed({**HONEST, "time": own}, WRITER, NOW)["time"] == own


def test_what_is_no_level_or_message_becomes_one() -> None:
    said = attributed({"level": ["x"], "message": {"a": 1}, "time_": "mine"}, WRITER, NOW)
    assert (said["level"], said["level_"]) == ("INFO", ["x"])
    assert said["message"] == "{'a': 1}"
    assert (said["logger"], said["time"], said["time_"]) == ("pallas.output", timestamp(NOW), "mine")


def test_a_worker_whose_process_is_not_known_yet_is_taken_at_its_word() -> None:
    assert attributed(HONEST, Writer("research", 3, None), NOW)["pid"] == 42
