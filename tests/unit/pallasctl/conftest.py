"""What the tests of the verbs share: a control server that answers what they tell it to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.control_server import FakeControl, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeControl]:
    with serve(tmp_path / "control.sock") as server:
        yield server
