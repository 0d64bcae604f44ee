"""Scripts that record a worker's metrics, each in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TESTS = ROOT / "tests"


RECORD_ALL = """
from pallas_worker.telemetry import metrics as m
m.open_metrics(directory, "a0")
m.observe_send_message("research", "ok", 1.5)
m.observe_send_message("research", "error", 90)
m.count_llm_turn("research", "gpt-5")
m.count_llm_tokens("research", "gpt-5", "input", 70)
m.count_llm_tokens("research", "gpt-5", "output", 0)
m.observe_tool_call("research", "argos", "tool", "ok", 0.2)
m.count_model_tool_calls("research", "argos", "refused", 2)
m.set_downstream_up("research", "argos", True)
m.set_llm_provider_up("openai", False)
m.set_health_checked("research")
m.set_calls("research", 1, 9)
m.set_calls("research", 3, 2)
"""


def run(script: str, directory: Path | str) -> str:
    """Run a script with `directory` set in an interpreter of its own and give its output."""
    code = f"directory = {str(directory)!r}\n{script}"
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
