"""What a user reads of mistakes while a deployment runs, which all of them share."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from mistakes.cases import declaring, running
from mistakes.mistake import BIN, GOLDEN, PATIENCE, Place, compare
from pallas_control.client import Control

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mistakes.mistake import Mistake

SUBJECT = "running"
MISTAKES = (*running.MISTAKES, *declaring.MISTAKES)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A project whose deployment runs: two agents are ready, one has failed."""
    made = Place(tmp_path_factory.mktemp("running"))
    made.write(running.FILES)
    done = subprocess.run(
        [BIN / "pallas", "up", "-d"],
        cwd=made.folder,
        env={**made.environ, "PALLAS_LOG_FILE": str(made.root / "pallas.log")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    try:
        assert done.returncode == 1, done
        yield made
    finally:
        subprocess.run(
            [BIN / "pallas", "down"], cwd=made.folder, env=made.environ, timeout=PATIENCE, check=True
        )


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_said_as_it_was_read(mistake: Mistake, place: Place) -> None:
    text = place.transcript(mistake)
    place.write(running.FILES)
    compare(SUBJECT, mistake.name, text)
    states = {a["name"]: a["state"] for a in Control(place.socket).get("/v1/status")["agents"]}
    assert states == {"jarvis": "ready", "research": "ready", "broken": "failed"}


def test_every_golden_file_is_of_a_mistake() -> None:
    assert {path.stem for path in (GOLDEN / SUBJECT).iterdir()} == {each.name for each in MISTAKES}
