"""The watchdog's food is proof, not habit; and what the manager hears of reloads and of time that is needed."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pallas.daemon import _Supervisor
from pallas_supervisor.lifecycle.events import DependenciesReady, Start
from pallas_supervisor.sockets.systemd import Notifier
from support.fleet.service_manager import ServiceManager
from support.supervisor.fakes import make_engine

if TYPE_CHECKING:
    from pathlib import Path


def test_an_engine_that_works_off_its_mail_is_alive() -> None:
    engine, world, _ = make_engine({"library": (), "research": ("library",)})
    assert engine.prove_alive()
    engine.post("library", Start())
    assert engine.prove_alive()
    assert world.took() == [("spawn", "library", 1)]


def test_an_engine_that_cannot_look_at_its_agents_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine, _, _ = make_engine({"library": ()})

    def fail(_name: str) -> tuple[str, ...]:
        raise RuntimeError("a defect")

    engine.post("library", Start())
    monkeypatch.setattr(engine, "_reconcile", lambda: fail(""))
    with caplog.at_level(logging.ERROR):
        assert not engine.prove_alive()
    assert "cannot work off its mail" in caplog.text
    monkeypatch.undo()
    assert engine.prove_alive()


def test_mail_that_stays_is_no_sign_of_life() -> None:
    engine, _, _ = make_engine({"library": ()})
    engine._draining = True  # somebody has begun and never ends
    engine.post("library", DependenciesReady())
    assert not engine.prove_alive()


@pytest.mark.parametrize("alive", [True, False])
def test_the_watchdog_is_fed_only_with_proof(alive: bool) -> None:
    sent: list[str] = []
    calls: list[float] = []
    supervisor = SimpleNamespace(
        _notifier=SimpleNamespace(watchdog_interval=2.0, send=sent.append),
        _loop=SimpleNamespace(call_later=lambda delay, *_: calls.append(delay)),
        _keep_alive=None,
    )
    engine = SimpleNamespace(prove_alive=lambda: alive)
    _Supervisor._keep_alive(supervisor, engine)  # type: ignore[arg-type]  # they have what it uses
    assert sent == (["WATCHDOG=1"] if alive else [])
    assert calls == [2.0]


def test_a_reload_is_framed_whatever_becomes_of_it(tmp_path: Path) -> None:
    with ServiceManager(tmp_path) as manager:
        notifier = Notifier(manager.environment)
        before = time.monotonic_ns() // 1000
        with pytest.raises(ValueError, match="broken"), notifier.reloading():
            raise ValueError("broken")
        said = manager.until(lambda said: "READY=1" in said)
    assert (said[0], said[2]) == ("RELOADING=1", "READY=1")
    assert before <= int(said[1].removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_more_time_is_asked_for_in_microseconds(tmp_path: Path) -> None:
    with ServiceManager(tmp_path) as manager:
        Notifier(manager.environment).extend_timeout(1.5)
        manager.until(lambda said: said == ["EXTEND_TIMEOUT_USEC=1500000"])
