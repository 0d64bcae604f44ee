"""All that the models of a call say, as it comes: of its agents, their children and the clones of those.

Knows what fast-agent's LLMs tell their listeners; must not know whose words are the answer. A listener could be put on
each agent, but clones are made without it while a call runs.
"""
# ruff: noqa: SLF001 - here fast-agent's private names may be used

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from fast_agent.llm.fastagent_llm import FastAgentLLM

from pallas_worker.fastagent.current_call import current_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from fast_agent.llm.stream_types import StreamChunk

    type Notify = Callable[[FastAgentLLM[Any, Any], StreamChunk], None]


def tap_streams() -> None:
    """Let the current call hear what every LLM of this process streams; again, it does nothing more."""
    notify = FastAgentLLM._notify_stream_listeners
    if not hasattr(notify, "__wrapped__"):
        FastAgentLLM._notify_stream_listeners = _tapped(notify)  # type: ignore[method-assign, assignment]


def _tapped(notify: Notify) -> Notify:
    @functools.wraps(notify)
    def notify_stream_listeners(llm: FastAgentLLM[Any, Any], chunk: StreamChunk) -> None:
        call = current_call()
        if call is not None:
            if chunk.event == "commit":
                call.speech.end(llm)
            elif chunk.event == "rollback":
                call.speech.begin_again(llm, llm.name)
            elif chunk.text:
                call.speech.piece(llm, llm.name, chunk.text, reasoning=chunk.is_reasoning)
        if llm._stream_listeners:
            notify(llm, chunk)

    return notify_stream_listeners
