"""Which connections are closed, and when: on a clock that stands until it is told to go on."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from pallas_common.http import connections as module
from pallas_common.http.connections import (
    BODY_RATE,
    BODY_TIMEOUT,
    GRACE,
    HEAD_TIMEOUT,
    KEEP_ALIVE,
    MAX_UNSENT,
    STALL_BYTES,
    STALL_TIMEOUT,
    Connections,
    Phase,
)

LIMIT = 4
WAITING = (Phase.SILENT, Phase.SENDING, Phase.IDLE)


@dataclass(eq=False)
class Client:
    """A connection that notes whether it was closed."""

    received: int = 0
    unsent: int = 0
    has_news: bool = False
    closed: bool = False

    def abort(self) -> None:
        self.closed = True


@dataclass
class Port:
    """A port with `LIMIT` connections at most."""

    now: float = 1000.0
    stall_timeout: float = STALL_TIMEOUT
    connections: Connections = field(init=False)

    def __post_init__(self) -> None:
        self.connections = Connections(
            "tests", LIMIT, stall_timeout=self.stall_timeout, clock=lambda: self.now
        )

    def client(self, phase: Phase = Phase.SILENT) -> Client:
        """One more, after a moment in which all that are there have had their grace."""
        self.now += GRACE
        client = Client()
        self.connections.enter(client, phase)
        return client

    def arrive(self) -> None:
        """Somebody connects."""
        self.now += GRACE
        assert self.connections.has_room()
        self.connections.make_room()

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.connections.close_overdue()


@pytest.mark.parametrize("phase", WAITING)
def test_the_one_that_waits_longest_makes_room(phase: Phase) -> None:
    port = Port()
    clients = [port.client(phase) for _ in range(LIMIT)]
    port.connections.enter(clients[0], phase)  # it has begun to wait anew
    port.arrive()
    assert [client.closed for client in clients] == [False, True, False, False]
    assert len(port.connections) == LIMIT - 1


def test_nobody_is_closed_while_there_is_room() -> None:
    port = Port()
    clients = [port.client() for _ in range(LIMIT - 1)]
    port.arrive()
    assert not any(client.closed for client in clients)


def test_what_is_being_answered_is_never_closed_for_another() -> None:
    port = Port()
    served = [port.client(Phase.SERVED) for _ in range(LIMIT)]
    port.now += 10_000
    assert not port.connections.has_room()
    port.connections.make_room()
    port.connections.close_overdue()
    assert not any(client.closed for client in served)
    port.connections.enter(served[2], Phase.IDLE)
    port.arrive()
    assert [client.closed for client in served] == [False, False, True, False]


@pytest.mark.parametrize("phase", WAITING)
def test_everybody_has_a_moment(phase: Phase) -> None:
    port = Port()
    clients = [port.client(phase) for _ in range(LIMIT)]
    for client in clients:
        port.connections.enter(client, phase)
    port.now += GRACE / 2
    assert not port.connections.has_room()
    assert not port.connections.close_one()
    port.now += GRACE
    assert port.connections.has_room()


@pytest.mark.parametrize(
    ("crowd", "other"), [(Phase.SILENT, Phase.IDLE), (Phase.SENDING, Phase.IDLE), (Phase.IDLE, Phase.SILENT)]
)
def test_a_crowd_makes_room_for_itself(crowd: Phase, other: Phase) -> None:
    port = Port()
    somebody = port.client(other)
    for _ in range(20):
        if len(port.connections) == LIMIT:
            port.arrive()
        port.client(crowd)
    assert not somebody.closed
    assert len(port.connections) == LIMIT


def test_those_that_have_just_asked_or_have_not_got_all_are_spared() -> None:
    port = Port()
    clients = [port.client(Phase.IDLE) for _ in range(LIMIT)]
    clients[0].has_news = True
    clients[1].unsent = 1
    port.arrive()
    assert [client.closed for client in clients] == [False, False, True, False]
    clients[3].has_news = True
    port.client(Phase.IDLE).has_news = True
    port.arrive()
    assert clients[1].closed, "what is not taken is no answer that somebody waits for"
    port.client(Phase.IDLE).has_news = True
    port.now += GRACE
    assert not port.connections.has_room()


def test_those_that_are_about_to_come_take_room() -> None:
    port = Port()
    clients = [port.client() for _ in range(LIMIT - 1)]
    port.now += GRACE
    assert port.connections.has_room(3)
    port.connections.make_room(3)
    assert [client.closed for client in clients] == [True, True, False]


@pytest.mark.parametrize(
    ("phase", "patience"),
    [
        (Phase.SILENT, HEAD_TIMEOUT),
        (Phase.IDLE, KEEP_ALIVE + HEAD_TIMEOUT),
        (Phase.SENDING, BODY_TIMEOUT),
    ],
)
def test_waiting_ends(phase: Phase, patience: float) -> None:
    port = Port()
    late, prompt, read_late = port.client(phase), port.client(phase), port.client(phase)
    read_late.has_news = True
    port.look_after(patience - 1)
    assert [client.closed for client in (late, prompt, read_late)] == [False] * 3
    port.connections.enter(prompt, Phase.SERVED)
    port.look_after(2)
    assert late.closed
    assert not prompt.closed
    assert not read_late.closed, "it is not late, we are"
    port.connections.leave(late)
    assert len(port.connections) == 2


def test_a_large_body_may_take_as_long_as_it_needs_at_the_least_rate() -> None:
    port = Port()
    trickle, stream = port.client(Phase.SENDING), port.client(Phase.SENDING)
    for _ in range(int(BODY_TIMEOUT) + 5):
        trickle.received += 1
        stream.received += BODY_RATE
        port.look_after(1)
    assert trickle.closed
    assert not stream.closed


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.SERVED])
def test_an_answer_that_nobody_takes_is_given_up(phase: Phase) -> None:
    port = Port()
    stuck, slow, done = port.client(phase), port.client(phase), port.client(phase)
    size = 1 << 20
    for second in range(int(STALL_TIMEOUT) + 3):
        stuck.unsent = size + second  # more comes, and nothing goes
        slow.unsent = size - second * STALL_BYTES
        done.unsent = size if second < STALL_TIMEOUT / 2 else 0
        port.look_after(1)
    assert stuck.closed
    assert not slow.closed
    assert not done.closed


def test_an_answer_that_is_taken_in_small_pieces_is_not_given_up() -> None:
    port = Port()
    slow, slower = port.client(Phase.SERVED), port.client(Phase.SERVED)
    slow.unsent = slower.unsent = 1 << 20
    for _ in range(2 * int(STALL_TIMEOUT)):
        slow.unsent -= STALL_BYTES // 2
        slower.unsent -= 1
        port.look_after(1)
    assert not slow.closed
    assert slower.closed


def test_one_answer_may_be_of_any_size_while_it_is_taken() -> None:
    port = Port()
    large = port.client(Phase.SERVED)
    large.unsent = 3 * MAX_UNSENT
    port.look_after(1)
    for _ in range(2):
        large.unsent -= STALL_BYTES
        port.look_after(1)
    assert not large.closed
    port.look_after(STALL_TIMEOUT + 1)
    assert large.closed


def test_of_several_answers_that_goes_which_was_not_taken_for_longest() -> None:
    port = Port()
    stuck, large = port.client(Phase.SERVED), port.client(Phase.SERVED)
    stuck.unsent, large.unsent = STALL_BYTES, MAX_UNSENT - STALL_BYTES
    port.look_after(1)
    assert (stuck.closed, large.closed) == (False, False)
    large.unsent -= STALL_BYTES
    port.look_after(1)
    late = port.client(Phase.SERVED)
    late.unsent = 2 * STALL_BYTES
    port.look_after(1)
    assert stuck.closed
    assert not large.closed, "what is left fits"
    assert not late.closed


def test_of_several_answers_of_one_age_the_largest_goes() -> None:
    port = Port()
    clients = [port.client(Phase.SERVED) for _ in range(9)]
    for client in clients:
        client.unsent = STALL_BYTES
    clients[4].unsent = MAX_UNSENT
    port.look_after(1)
    assert [client.closed for client in clients] == [index == 4 for index in range(9)]


def test_a_port_may_have_all_patience() -> None:
    port = Port(stall_timeout=float("inf"))
    stuck = port.client(Phase.SERVED)
    stuck.unsent = 1
    port.look_after(0)
    port.look_after(100_000)
    assert not stuck.closed


def test_what_clients_leave_with_us_is_bounded() -> None:
    port = Port()
    clients = [port.client(Phase.IDLE) for _ in range(LIMIT)]
    for client in clients[:3]:
        client.unsent = MAX_UNSENT // 2
    port.look_after(1)
    assert sum(client.unsent for client in clients if not client.closed) <= MAX_UNSENT
    assert [client.closed for client in clients].count(True) == 1
    assert not clients[3].closed


def test_a_crowd_is_told_of_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    port = Port()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for _ in range(50):
                port.now += GRACE
                port.connections.has_room()
                port.connections.make_room()
                port.connections.enter(Client(), Phase.SILENT)
            port.now += module.COMPLAINT_INTERVAL
    assert len(caplog.messages) == 2
    assert "tests: all of its 4 connections are taken, 0 of them by requests" in caplog.messages[0]


def test_connections_are_quiet_once_the_newest_has_been_idle_for_long_enough() -> None:
    port = Port()
    assert port.connections.are_quiet(1.0), "there are none"
    port.client(Phase.IDLE)
    port.client(Phase.IDLE)
    port.now += 0.9
    assert not port.connections.are_quiet(1.0)
    port.now += 0.1
    assert port.connections.are_quiet(1.0)


@pytest.mark.parametrize("phase", [Phase.SILENT, Phase.SENDING, Phase.SERVED])
def test_connections_with_a_request_are_never_quiet(phase: Phase) -> None:
    port = Port()
    port.client(phase)
    port.now += 10.0
    assert not port.connections.are_quiet(1.0)
