"""The models of an instance that failed in the end: fast-agent's workflows go on without their answers.

Knows the public stream events of fast-agent's LLMs; must not know kinds of agents.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fast_agent.types import LlmStopReason

from pallas_worker.agent.models.failures import as_health_names_it
from pallas_worker.fastagent.streams.retries import failure_in
from pallas_worker.interface.errors import CallError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fast_agent.llm.stream_types import StreamChunk
    from fast_agent.types import PromptMessageExtended


class FailedModels:
    """Listens to the models of some agents, from its making on."""

    def __init__(self, agents: Mapping[str, Any], names: Iterable[str]) -> None:
        self._agents = agents
        self._failed: dict[str, bool] = {}
        for name in names:
            if (llm := getattr(agents[name], "llm", None)) is not None:
                llm.add_stream_listener(partial(self._hear, name))

    def refuse(self) -> None:
        """Make sure that the last request to each model was answered.

        Raises:
            CallError: one was not, so that the agent's answer is made of an apology.
        """
        failed = [name for name, failed in self._failed.items() if failed]
        if failed:
            apology = next((found for name in failed if (found := self._apology(name))), None)
            failure = failure_in(apology) if apology is not None else None
            text = f"the model of {' and '.join(failed)} gave no answer"
            if failure is None:
                raise CallError(text)
            raise CallError(f"{text}: {failure.sentence()}", as_health_names_it(failure))

    def _hear(self, name: str, chunk: StreamChunk) -> None:
        """A request ends with `commit`, or after the last try with `rollback`, which also precedes each retry."""
        if chunk.event != "delta":
            self._failed[name] = chunk.event == "rollback"

    def _apology(self, name: str) -> PromptMessageExtended | None:
        history = getattr(self._agents[name], "message_history", None)
        return history[-1] if history and history[-1].stop_reason is LlmStopReason.ERROR else None
