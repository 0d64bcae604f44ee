"""What an agent is to be made from has to be there; what is not is named, with what was probably meant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.deployment.agents_file import read_deployment
from pallas_registry.deployment.source_files import source_complaint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "my-jarvis.py").touch()
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "jarvis.md").touch()
    (tmp_path / "cards" / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop.py").symlink_to("loop.py")
    return tmp_path


@pytest.mark.parametrize(
    "source",
    [
        AgentSource("module", "nowhere.at.all"),
        AgentSource("file", "agents/my-jarvis.py"),
        AgentSource("card", "cards/jarvis.md"),
        AgentSource("card", "cards"),
    ],
)
def test_what_is_there(directory: Path, source: AgentSource) -> None:
    assert source_complaint(source, directory) is None


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (
            AgentSource("file", "agents/my-jarviss.py"),
            "there is no file *; did you mean 'agents/my-jarvis.py'?",
        ),
        (AgentSource("file", "a.py"), "there is no file 'a.py'; write it, or mend the path: it is relative"),
        (AgentSource("file", "agents"), "'agents' is a folder; name a Python file in it"),
        (AgentSource("file", "pipe.py"), "'pipe.py' is no regular file"),
        (AgentSource("file", "loop.py"), "'loop.py' cannot be looked at: Too many levels"),
        (AgentSource("file", "agents/my-jarvis.py/a.py"), "there is no file 'agents/my-jarvis.py/a.py'"),
        (AgentSource("card", "card"), "there is no agent card or folder 'card'; did you mean 'cards'?"),
        (AgentSource("card", "cards/jarvi.md"), "did you mean 'cards/jarvis.md'?"),
        (
            AgentSource("card", "cards/notes.txt"),
            "'cards/notes.txt' is no agent card; use a file that ends in .md",
        ),
        (AgentSource("card", "empty"), "the folder 'empty' holds no agent card; cards end in .md"),
    ],
)
def test_what_is_not(directory: Path, source: AgentSource, part: str) -> None:
    complaint = source_complaint(source, directory)
    assert complaint is not None
    before, _, after = part.partition("*")
    said = f"{complaint.message}; {complaint.remedy}"
    assert before in said
    assert after in said


def test_a_path_is_relative_to_the_working_directory(directory: Path) -> None:
    elsewhere = directory / "empty" / "agents.yaml"
    elsewhere.write_text("name: demo\nagents:\n  a:\n    card: cards/jarvis.md\n    port: 9000\n")
    assert read_deployment(elsewhere, directory).agents["a"].source == AgentSource("card", "cards/jarvis.md")
    with pytest.raises(ConfigurationError) as caught:
        read_deployment(elsewhere)
    (problem,) = caught.value.problems
    assert (problem.line, problem.field) == (4, "agents.a.card")
