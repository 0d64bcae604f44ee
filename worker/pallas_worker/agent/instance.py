"""One instance of the served agent: what a call does with it.

Knows fast-agent's public agents; must not know how they are made, MCP requests or metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fast_agent.types import LlmStopReason, RequestParams

from pallas_worker.agent.failed_models import FailedModels
from pallas_worker.agent.messages.rows import exchange_rows, turn_rows
from pallas_worker.agent.models.agent_kinds import (
    may_be_held,
    messages_for,
    models_needed,
    own_turn,
    own_words,
    speakers,
    turn_behind,
    writer,
)
from pallas_worker.agent.models.failures import as_health_names_it, model_failure
from pallas_worker.agent.models.keys import missing_key
from pallas_worker.agent.parameters.asking import ask_as_requested
from pallas_worker.agent.usage import turn_of
from pallas_worker.fastagent.streams.retries import failure_in
from pallas_worker.fastagent.tools.guard import TurnHeld, may_hold
from pallas_worker.fastagent.tools.resume import pending_in, resume
from pallas_worker.fastagent.tools.rules import check_patterns
from pallas_worker.interface.errors import ArgumentError, CallError
from pallas_worker.interface.providers.failures import ModelFailure
from pallas_worker.raised import RaisedError, contained

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from fast_agent.mcp_server_registry import ServerRegistry
    from fast_agent.types import PromptMessageExtended

    from pallas_worker.agent.progress import Progress
    from pallas_worker.downstreams.reachability import Attachments
    from pallas_worker.fastagent.instructions.files import Rendering
    from pallas_worker.fastagent.tools.running import Counts
    from pallas_worker.interface.history import Row
    from pallas_worker.interface.turn import ModelUsage, TurnRequest

LISTING_TIMEOUT = 2.0
"""Seconds in which an agent says which tools it has."""


class Instance:
    """One instance of the served agent, for one call."""

    def __init__(self, name: str, agents: Mapping[str, Any], attachments: Attachments) -> None:
        self._name = name
        self._agent = agents[name]
        self._kind = getattr(self._agent, "agent_type", None)
        self._agents = agents
        self._history: list[PromptMessageExtended] = []
        self._attachments = attachments
        self.turn: Sequence[PromptMessageExtended] | None = None
        """The messages of the turn, where they are others than those that its agent had last."""
        self._held = False

    @property
    def tool_calls(self) -> Counts:
        """How many tool calls of its models there were so far, by server and outcome."""
        return self._attachments.tool_calls

    @property
    def knows_all_tools(self) -> bool:
        """Whether all of its servers could be asked for their tools."""
        return not self._attachments.unreachable and not self._attachments.deferred

    @property
    def speakers(self) -> frozenset[str]:
        """The agents whose words are the answer as they are spoken; see `agent_kinds.speakers`."""
        return speakers(self._agent)

    @property
    def agent(self) -> Any:
        """The served agent."""
        return self._agent

    @property
    def writer(self) -> Any:
        """The LLM that can write down in another form what the agent has answered; None if there is none."""
        return writer(self._agent, self._agents)

    def load_history(self, messages: Iterable[PromptMessageExtended]) -> None:
        """Begin with this conversation; an agent that is made of others gets what was said, without tool calls."""
        self._history = own_words(self._kind, messages)
        self._agent.load_message_history(self._history)

    async def ask_as_requested(self, request: TurnRequest) -> tuple[str, ...]:
        """Let its models be asked with a call's system prompt and parameters; what they do not take, for the caller.

        Raises:
            ArgumentError: something cannot be honoured that is no hint.
        """
        return await ask_as_requested(self._agent, request)

    def missing_keys(self) -> Iterator[tuple[str, str, bool]]:
        """The agents whose LLM has no key: name, remedy, and whether no call can be answered without it."""
        needed = {self._name, *models_needed(self._name, self._kind, self._agents)}
        for name, agent in self._agents.items():
            if (llm := getattr(agent, "llm", None)) is not None and (remedy := missing_key(llm)):
                yield name, remedy, name in needed

    async def tool_names(self) -> dict[str, list[str]]:
        """Agent → the names of the tools that it can call, of those that say it."""
        found = {}
        for name, agent in self._agents.items():
            # An agent's code may be in there, and nothing depends on the answer.
            with contextlib.suppress(Exception), contained():
                async with asyncio.timeout(LISTING_TIMEOUT):
                    found[name] = [str(tool.name) for tool in (await agent.list_tools()).tools]
        return found

    async def check_tools(self, request: TurnRequest) -> None:
        """Make sure that the tools which the request names are there: a mistake must not let others run.

        Raises:
            ArgumentError: one of them is no tool of any of the agents.
        """
        if request.tools_allowlist is None and not request.hold:
            return
        tools = {tool for names in (await self.tool_names()).values() for tool in names}
        unreachable = self._attachments.unreachable
        if (
            "tools_allowlist" not in request.by_default
        ):  # else it is the definition's mistake, and lets nothing run
            check_patterns("tools_allowlist", request.tools_allowlist or (), tools, unreachable)
        check_patterns("hold", request.hold, tools, unreachable)

    async def generate(
        self,
        message: PromptMessageExtended,
        progress: Progress,
        more: Mapping[str, Any] | None = None,
        before: Sequence[PromptMessageExtended] = (),
    ) -> PromptMessageExtended:
        """The agent's answer to `message`, after all its turns and tool calls.

        Args:
            more: further fields of fast-agent's `RequestParams`.
            before: what was said in this turn before, to an agent that does not remember it.

        Raises:
            ArgumentError: it has results of tools, and the agent has no calls of its own that they could belong to.
            CallError: the LLM could not be asked, or gave no answer.
        """
        if message.tool_results and not self._knows_own_calls:
            raise ArgumentError(
                "this agent cannot go on from a tool's result: it does not see earlier tool calls; "
                "end with a message of the user",
                "messages",
            )
        messages = [*before, *messages_for(self._kind, self._history, message)]
        holdable = self._agent if may_be_held(self._kind) else None
        with may_hold(holdable):
            return await self._answer(lambda params: self._agent.generate(messages, params), progress, more)

    async def resume(
        self, progress: Progress, more: Mapping[str, Any] | None = None
    ) -> PromptMessageExtended:
        """The agent's answer after the calls that its history ends with, which run now; see `held`.

        Args:
            more: further fields of fast-agent's `RequestParams`.

        Raises:
            ArgumentError: the history does not end with calls, or the agent is of a kind that cannot be taken up.
            CallError: as `generate`.
        """
        if not may_be_held(self._kind):
            raise ArgumentError(
                "a turn of this agent cannot be taken up: others answer in its place", "resume"
            )
        pending, given = pending_in(self._history)
        self._agent.load_message_history(self._history[: -1 if given else None])
        return await self._answer(lambda params: resume(self._agent, pending, given, params), progress, more)

    async def written(
        self, llm: Any, messages: Sequence[PromptMessageExtended], more: Mapping[str, Any]
    ) -> PromptMessageExtended:
        """What an LLM of this instance answers without tools and without its agent.

        Raises:
            CallError: as `generate`.
        """
        return await self._answer(lambda params: llm.generate(list(messages), params), None, more)

    @property
    def held(self) -> bool:
        """Whether the turn has ended before tool calls: the answer is the message with them, none of which has run."""
        return self._held

    async def _answer(
        self,
        ask: Callable[[RequestParams], Awaitable[PromptMessageExtended]],
        progress: Progress | None,
        more: Mapping[str, Any] | None = None,
    ) -> PromptMessageExtended:
        params = RequestParams(tool_execution_handler=progress, emit_loop_progress=True, **(more or {}))
        try:
            outages = FailedModels(self._agents, models_needed(self._name, self._kind, self._agents))
            answer = await ask(params)
        except TurnHeld:
            self._held = True
            pending: PromptMessageExtended = self._agent.last_turn_messages[-1]
            return pending
        except RaisedError:
            raise
        except Exception as error:
            if (failure := model_failure(error)) is None:
                raise
            raise CallError(failure.sentence(), failure) from error
        if answer.stop_reason is LlmStopReason.CANCELLED and _is_cancelled():
            # Providers' clients of fast-agent make an answer of a cancellation.
            raise asyncio.CancelledError
        if answer.stop_reason in (LlmStopReason.ERROR, LlmStopReason.TIMEOUT, LlmStopReason.CANCELLED):
            timed_out = answer.stop_reason is LlmStopReason.TIMEOUT
            failure = failure_in(answer) or ModelFailure("timeout" if timed_out else "failed")
            raise CallError(failure.sentence(), as_health_names_it(failure))
        outages.refuse()
        return answer

    def turn_behind(self, answer: PromptMessageExtended) -> Sequence[PromptMessageExtended]:
        """The messages that led to an answer of `generate`."""
        return turn_behind(answer, self._agent)

    def rows(
        self, message: PromptMessageExtended, answer: PromptMessageExtended, history: Sequence[Row]
    ) -> tuple[Row, ...]:
        """The finished turn, to follow the history: with all tool calls and results of a plain agent.

        What an agent is made of may call tools as well; that is told as it happens, and is no part of the conversation.
        """
        turn = self.turn if self.turn is not None else own_turn(answer, self._agent)
        return turn_rows(turn, history) if turn else exchange_rows(message, answer)

    def turns(self) -> list[ModelUsage]:
        """The LLM round-trips so far: of all agents of this instance, and those that servers have asked for."""
        accumulators = (getattr(agent, "usage_accumulator", None) for agent in self._agents.values())
        asked = (*accumulators, *self._attachments.sampled)
        return [
            turn_of(usage) for accumulator in asked if accumulator is not None for usage in accumulator.turns
        ]

    @property
    def _knows_own_calls(self) -> bool:
        config = getattr(self._agent, "config", None)
        return may_be_held(self._kind) and getattr(config, "use_history", True)


def _is_cancelled() -> bool:
    """Whether the current task has been asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@dataclass(frozen=True, slots=True)
class PreparedInstance:
    """An instance that belongs to no call yet."""

    instance: Instance
    agents: Mapping[str, Any]
    attachments: Attachments
    registry: ServerRegistry
    losses: int
    """How many servers had been lost when its making began."""
    rendering: Rendering

    def is_current(self) -> bool:
        """Return whether a call would get from it what it would get from one that is made now."""
        return (
            not self.attachments.unreachable
            and self.rendering.is_current()
            and all(connections.is_connected() for connections in self.attachments.aggregators)
        )
