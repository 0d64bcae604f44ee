"""What holds for every test: repeatable property tests, and HTTP clients that are made quickly and are patient.

`pytest --hypothesis-profile=default tests/property` looks for new examples.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING
from unittest import mock

import httpx
import httpx2
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

# Nobody's state is read or written but the tests' own, whatever they leave out.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="pallas-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# What a shell starts in the background ignores SIGINT, and hands that down to all that it starts itself; programs under
# test are to be as one that a person starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the machine is doing.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# Each client reads the certificates of all authorities, which takes longer than most calls; here they share them.
for library in (httpx, httpx2):
    kept = functools.cache(library.create_ssl_context)
    mock.patch.object(library._transports.default, "create_ssl_context", kept).start()
    # Where no time-out is given, it only bounds a failing test.
    for what in ("connect", "read", "write", "pool"):
        setattr(library._config.DEFAULT_TIMEOUT_CONFIG, what, 120.0)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own, as pytest's, but with a name that leaves room for the paths of sockets in it."""
    return tmp_path_factory.mktemp(re.sub(r"\W", "_", request.node.name)[:12])
