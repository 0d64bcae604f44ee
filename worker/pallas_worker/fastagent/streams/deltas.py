"""Pieces of OpenAI chat streams taken for what they are: each follows all that came before it.

fast-agent takes a piece that begins with the whole text so far for that text again, and what follows in it for the
news. No API that it speaks sends such pieces, but models do begin with the same piece twice: of the answer "11", as
the pieces "1" and "1", the second was told at the end at best, and was lost with the providers `generic`, `openrouter`
and `google` (its API of OpenAI's kind).
"""

from __future__ import annotations

import sys

from pallas_common.logs.setup import get_logger

_MODULE = "fast_agent.llm.provider.openai.llm_openai"
_NAME = "_extract_incremental_delta"

_log = get_logger("pallas.worker.fastagent")


def take_deltas_as_they_are() -> None:
    """Let fast-agent add up the pieces; does nothing where that provider is not loaded, nor when it is done."""
    module = sys.modules.get(_MODULE)
    if module is None:
        return
    owner = getattr(module, "OpenAILLM", None)
    found = getattr(owner, _NAME, None)
    if owner is None or found is None:
        _log.warning(f"{_MODULE}.OpenAILLM.{_NAME} has moved: pieces that repeat what was said may be lost")
    elif found is not added:
        setattr(owner, _NAME, staticmethod(added))


def added(delta: str, cumulative: str) -> tuple[str, str]:
    """What is new in a piece, and the text with it."""
    return delta, cumulative + delta
