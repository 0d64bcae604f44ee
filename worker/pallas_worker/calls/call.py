"""One `send_message` call: a fresh instance, the history, the answer, the figures, and always disposal.

Knows what a call is made of; must not know transports or fast-agent's internals.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING

from fast_agent.core.exceptions import FastAgentError, ProviderKeyError
from mcp_types import CallToolResult, TextContent

from pallas_common.logs.setup import get_logger
from pallas_worker.agent.models.failures import failure_of
from pallas_worker.agent.models.keys import unset_key
from pallas_worker.agent.progress import Progress
from pallas_worker.downstreams.bearer import offered_to_llm
from pallas_worker.interface.errors import ArgumentError, BusyError, CallError
from pallas_worker.interface.messages import history_messages, result_content, user_turn
from pallas_worker.interface.tools import parse_send_message
from pallas_worker.redact import known, redact
from pallas_worker.telemetry import metrics
from pallas_worker.telemetry.correlation import bound
from pallas_worker.telemetry.tracing import set_outcome, span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_types import ContentBlock

    from pallas_worker.agent.instance import Instance
    from pallas_worker.agent.models.failures import ModelFailure
    from pallas_worker.agent.progress import Send
    from pallas_worker.agent.runtime import AgentRuntime
    from pallas_worker.calls.admission import Admission
    from pallas_worker.interface.tools import SendMessage
    from pallas_worker.interface.vision import Vision

_log = get_logger("pallas.worker.calls")

MAX_CREATIONS = 8
"""Instances made at a time: beyond that, connecting to downstream servers runs into its time limit."""

_OPERATIONS = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
"""fast-agent's operation types in the words of the metrics reference; in others, `/` becomes `-`."""


class Calls:
    """Answers `send_message` calls of one agent."""

    def __init__(
        self,
        agent: str,
        runtime: AgentRuntime,
        *,
        admission: Admission,
        vision: Vision,
        model_called: Callable[[ModelFailure | None], None],
    ) -> None:
        """Prepare; `model_called` gets the outcome of each call whose LLM has answered (None) or failed."""
        self._agent = agent
        self._runtime = runtime
        self._vision = vision
        self._admission = admission
        self._model_called = model_called
        self._creations = asyncio.Semaphore(MAX_CREATIONS)

    async def send_message(
        self, arguments: Mapping[str, object] | None, bearer: str | None, request_id: str, send_progress: Send
    ) -> CallToolResult:
        """The result of one call; every failure that is not the client's going away is an `isError` result.

        Args:
            arguments: as the client sent them.
            bearer: the token of the inbound request, if it had one.
            request_id: of the inbound request; all log records of the call bear it.
            send_progress: sends one progress notification.
        """
        began = time.monotonic()
        outcome: metrics.Outcome = "error"
        with ExitStack() as stack:
            stack.callback(
                lambda: metrics.observe_send_message(self._agent, outcome, time.monotonic() - began)
            )
            stack.enter_context(known.during(bearer))
            stack.enter_context(bound(request=request_id))
            try:
                request = parse_send_message(arguments)
                stack.enter_context(bound(conversation=request.conversation_id))
                called = stack.enter_context(span("send_message", agent=self._agent, request_id=request_id))
                stack.callback(lambda: set_outcome(called, outcome))
                _announce(request)
                self._vision.refuse(request.images)
                async with self._admission.place():
                    content = await self._run(request, bearer, Progress(send_progress))
                outcome = "ok"
                self._model_called(None)
                return CallToolResult(content=content)
            except (ArgumentError, BusyError) as error:
                return _failed(str(error))
            except CallError as error:
                self._report_failure(error, bearer)
                _log.warning(f"the model gave no answer: {redact(str(error))}")
                return _failed(str(error))
            except FastAgentError as error:
                self._report_failure(error, bearer)
                _log.warning(f"the agent could not be made or run: {error.message}", exc_info=error)
                return _failed(f"{type(error).__name__}: {error.message}")
            except Exception as error:  # noqa: BLE001 - a caller gets an answer, whatever breaks
                self._report_failure(error, bearer)
                _log.exception("the call failed")
                return _failed(
                    f"the call failed inside the worker ({type(error).__name__}); "
                    f"its log has the details, request_id {request_id}"
                )

    async def _run(self, request: SendMessage, bearer: str | None, progress: Progress) -> list[ContentBlock]:
        with offered_to_llm(bearer):
            async with AsyncExitStack() as stack:
                with span("prepare instance"):
                    async with self._creations:
                        instance = await stack.enter_async_context(
                            self._runtime.instance(bearer, self.observe)
                        )
                stack.callback(self._count, instance)
                instance.load_history(history_messages(request.history.rows, self._vision))
                try:
                    answer = await instance.generate(user_turn(request.message, request.images), progress)
                finally:
                    await progress.close()
                return result_content(instance.turn_behind(answer), answer)

    def _report_failure(self, error: Exception, bearer: str | None) -> None:
        """Report what the call's failure says of the LLM; nothing for other calls where the caller brings the key."""
        failure = failure_of(error)
        if failure is None:
            return
        callers_own = bearer is not None or (isinstance(error, ProviderKeyError) and unset_key(error))
        if not (callers_own and self._runtime.takes_callers_keys):
            self._model_called(failure)

    def _count(self, instance: Instance) -> None:
        metrics.count_refused_tool_calls(self._agent, instance.refused_calls)
        for turn in instance.turns():
            metrics.count_llm_turn(self._agent, turn.model)
            for kind, n in turn.tokens.items():
                metrics.count_llm_tokens(self._agent, turn.model, kind, n)

    def observe(self, server: str, operation: str, well: bool, seconds: float) -> None:
        """One operation on a downstream server has ended."""
        named = _OPERATIONS.get(operation, operation.replace("/", "-"))
        metrics.observe_tool_call(self._agent, server, named, "ok" if well else "error", seconds)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(is_error=True, content=[TextContent(type="text", text=redact(text))])


def _announce(request: SendMessage) -> None:
    """Log that the call has begun, and what of the history is not used."""
    history = request.history
    _log.info(f"send_message: {len(history.rows)} history rows")
    for fault in history.left_out:
        what = "images left out" if fault.images_only else "skipped"
        _log.warning(f"history[{fault.index}] {what}: {fault.reason}")
    if history.more:
        _log.warning(f"history: {history.more} more malformed rows")
