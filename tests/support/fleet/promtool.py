"""Prometheus' own checker, which comes with Debian's `prometheus`."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def promtool(*arguments: str, given: str = "") -> str:
    """Run it with `given` as its input; all that it found fault with, nothing if it was content."""
    if shutil.which("promtool") is None:
        message = "not run: needs promtool (apt-get install prometheus)"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(message)
        pytest.skip(message)
    done = subprocess.run(
        ["promtool", *arguments], input=given, capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stdout + done.stderr
    return said if said or not done.returncode else f"it ended with {done.returncode}"
