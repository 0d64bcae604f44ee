"""What a user reads of mistakes in agents' code: from a check, and from the status of a start, in the same words.

All are agents of one deployment, which is checked once and started once; each golden file is what is said of one.
"""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from mistakes.cases import code
from mistakes.mistake import BIN, GOLDEN, PATIENCE, Place, compare
from pallas_control.client import Control
from pallas_control.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SUBJECT = "code"

OTHERWISE = {
    "ends_itself": "exit status 3",
    "no_pallas_there": "exit status 1",
    "header_variable": "Unreachable: web",
    "missing_command": "Unreachable: local",
    "unknown_child": "",
}
"""What the status says instead: of a process that is gone without a message, and of what is no failure."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("code"))
    made.write(code.files())
    return made


@pytest.fixture(scope="module")
def checked(place: Place) -> Mapping[str, str]:
    """What `pallas check` says of each agent."""
    said: dict[str, list[str]] = {}
    of = None
    for line in place.run("pallas check", apart=True).splitlines():
        if found := re.match(r"(?:  |pallas: warning: )\S+: agents\.(\w+)(?:\.\w+)*: ", line):
            of = said.setdefault(found[1], [])
        elif not line.startswith("    "):
            of = None
        if of is not None:
            of.append(line)
    return {name: "\n".join(lines) for name, lines in said.items()}


@pytest.fixture(scope="module")
def started(place: Place) -> Iterator[Mapping[str, Any]]:
    """The status of each agent, once all have been started or failed."""
    environ = {**place.environ, "PALLAS_LOG_FILE": str(place.root / "pallas.log")}
    output = (place.root / "output").open("w")
    with (
        output,
        subprocess.Popen(
            [BIN / "pallas"],
            cwd=place.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            yield _settled(Control(place.socket))
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _settled(control: Control) -> Mapping[str, Any]:
    """The status of each agent, once it is ready or failed."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with suppress(ControlError):
            agents = {agent["name"]: agent for agent in control.get("/v1/status")["agents"]}
            if all(agent["state"] in ("ready", "failed") for agent in agents.values()):
                return agents
        assert time.monotonic() < deadline
        time.sleep(0.1)  # between two looks: a wait for several ends with the first that fails


@pytest.mark.parametrize("name", code.AGENTS)
def test_a_check_says_what_is_wrong_with_the_code(name: str, checked: Mapping[str, str]) -> None:
    text = f"$ pallas check\n{checked[name]}\n"
    assert "Traceback" not in text
    compare(SUBJECT, name, text)


@pytest.mark.parametrize("name", code.AGENTS)
def test_a_start_says_the_same(
    name: str, checked: Mapping[str, str], started: Mapping[str, Any], place: Place
) -> None:
    message = started[name]["message"]
    if name in OTHERWISE:
        assert message == OTHERWISE[name]
        return
    place_, _, what = place.plain(message).rpartition(": ")
    assert what in checked[name].partition("\n")[0]
    assert place_.partition(": ")[0].split(":")[0] in checked[name]


def test_every_golden_file_is_of_a_mistake() -> None:
    assert {path.stem for path in (GOLDEN / SUBJECT).iterdir()} == set(code.AGENTS)
