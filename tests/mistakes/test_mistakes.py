"""What a user reads after a mistake: compared with a text that somebody has read and found helpful.

Each file in `golden/` is a mistake: the commands that meet it, all that they print, and their exit status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mistakes.cases import agents_file, command_line, environment, init, machine, resources, settings
from mistakes.mistake import GOLDEN, Place, compare

if TYPE_CHECKING:
    from pathlib import Path

    from mistakes.mistake import Mistake

CASES = {
    "init": init.MISTAKES,
    "agents-yaml": agents_file.MISTAKES,
    "environment": environment.MISTAKES,
    "settings": settings.MISTAKES,
    "resources": resources.MISTAKES,
    "machine": machine.MISTAKES,
    "command-line": command_line.MISTAKES,
}


@pytest.mark.parametrize(
    ("subject", "mistake"),
    [
        pytest.param(subject, each, id=f"{subject}/{each.name}")
        for subject, all_ in CASES.items()
        for each in all_
    ],
)
def test_a_mistake_is_said_as_it_was_read(subject: str, mistake: Mistake, tmp_path: Path) -> None:
    compare(subject, mistake.name, Place(tmp_path).transcript(mistake))


@pytest.mark.parametrize("subject", CASES)
def test_every_golden_file_is_of_a_mistake(subject: str) -> None:
    assert {path.stem for path in (GOLDEN / subject).iterdir()} == {
        mistake.name for mistake in CASES[subject]
    }
