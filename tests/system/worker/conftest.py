"""What the tests of workers share: a fake of an LLM provider, one for each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.llm_stub import LlmStub, run_llm_stub

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def stub() -> Iterator[LlmStub]:
    """A running stub that answers by what it is asked, until a test scripts it."""
    with run_llm_stub() as running:
        yield running
