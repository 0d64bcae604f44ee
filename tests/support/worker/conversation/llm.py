"""A worker whose default model is the LLM stub's: its configuration, what the supervisor says of it, its series."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx

from pallas_common.protocol.agent.llm import ModelCapabilities

if TYPE_CHECKING:
    from fakes.llm_stub import LlmStub
    from support.worker.process import RunningWorker


KEY = "sk-stub-0123456789"


def config(stub: LlmStub) -> str:
    """A configuration whose default model is the stub's."""
    return (
        "default_model: openai.stub-model\n"
        f"openai: {{api_key: {KEY}, base_url: '{stub.openai_url}'}}\n"
        "llm_retries: 0\n"
    )


def spec(*, vision: bool = True) -> dict[str, Any]:
    """What the supervisor says of that model."""
    capabilities = ModelCapabilities(vision=vision, context_window=5000, max_output_tokens=500)
    return {"default_model": "openai.stub-model", "capabilities": capabilities}


def metric(worker: RunningWorker, series: str) -> float:
    """The value of a series of the worker, 0 if there is none."""
    found = re.search(
        rf"^{re.escape(series)} (\S+)$", httpx.get(f"{worker.origin}/metrics").text, re.MULTILINE
    )
    return float(found[1]) if found else 0.0
