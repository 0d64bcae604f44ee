"""Which files are the user's own."""

from __future__ import annotations

from pathlib import Path

from pallas_common.protocol.agent.source import AgentSource
from pallas_worker.process import run
from pallas_worker.process.user_module.errors import UserCode


def test_a_workers_own_files_are_never_the_users() -> None:
    """Also where Pallas itself lies below the working directory, as in its repository."""
    directory = Path(run.__file__).parents[2]
    code = UserCode(str(directory), AgentSource("module", "agents.demo"))
    assert not code.owns(run.__file__)
    assert code.owns(str(directory / "agents" / "demo.py"))
