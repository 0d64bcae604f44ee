"""One turn: a fresh instance, the history, the answer, the figures, and always disposal.

Knows what a call is made of; must not know transports or fast-agent's internals.
"""

from __future__ import annotations

import asyncio
import copy
import time
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from fast_agent.core.exceptions import FastAgentError
from mcp_types import TextContent

from pallas_common.logs.setup import get_logger
from pallas_common.problems import quoted
from pallas_common.protocol.mcp.chain import refusal as chain_refusal
from pallas_worker.agent.messages.content import finish_reason, incomplete, result_content
from pallas_worker.agent.messages.rows import conversation
from pallas_worker.agent.models.failures import model_failure
from pallas_worker.agent.progress import Progress
from pallas_worker.agent.structured import structured_answer
from pallas_worker.calls.record import CallRecord
from pallas_worker.calls.shortening import shortened
from pallas_worker.calls.spoken import Spoken
from pallas_worker.downstreams.bearer import offered_to_llm
from pallas_worker.fastagent.current_call import CurrentCall, as_current, no_wait
from pallas_worker.fastagent.streams.pacing import pace
from pallas_worker.interface.chat.defaults import with_defaults
from pallas_worker.interface.errors import (
    ArgumentError,
    BusyError,
    CallError,
    FailedTurn,
    ForbiddenError,
    LoopError,
)
from pallas_worker.interface.turn import Ignored, TurnResult
from pallas_worker.raised import RaisedError, run_contained
from pallas_worker.redact import known, redact
from pallas_worker.telemetry import metrics
from pallas_worker.telemetry.correlation import bound
from pallas_worker.telemetry.tracing import set_outcome, span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from fast_agent.types import PromptMessageExtended

    from pallas_common.protocol.agent.output_schema.schema import OutputSchema
    from pallas_common.protocol.mcp.chain import Chain
    from pallas_worker.agent.instance import Instance
    from pallas_worker.agent.progress import Send
    from pallas_worker.agent.runtime import AgentRuntime
    from pallas_worker.calls.admission import Admission
    from pallas_worker.interface.chat.defaults import Defaults
    from pallas_worker.interface.errors import FailureKind
    from pallas_worker.interface.providers.failures import ModelFailure
    from pallas_worker.interface.turn import ModelUsage, TurnEvent, TurnRequest
    from pallas_worker.interface.vision import Vision

_log = get_logger("pallas.worker.calls")

MAX_CREATIONS = 8
"""Instances made at a time: beyond that, connecting to downstream servers runs into its time limit."""

_OPERATIONS = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
"""fast-agent's operation types in the words of the metrics reference; in others, `/` becomes `-`."""


def _to_nobody(_: object) -> None:
    """Where a caller does not ask what happens meanwhile."""


async def _no_progress(_: float, _total: float | None = None, _message: str | None = None) -> None:
    """Where a surface has no such notifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks for a turn, and who is told what happens meanwhile."""

    surface: str
    """What the call is called in log and traces."""
    request_id: str
    """Of the inbound request; all log records of the call bear it."""
    bearer: str | None = None
    """The token of the inbound request, if it had one."""
    send_progress: Send = _no_progress
    """Sends one progress notification of MCP."""
    tell: Callable[[TurnEvent], None] = _to_nobody
    """Takes what happens, as it happens."""
    room: Callable[[], Awaitable[None]] = no_wait
    """Waits until the caller has taken enough of what it was told: meanwhile no model's stream is read on."""
    takes_back: bool = True
    """Whether the caller can take text back that it was told: else no model is asked again that has said some."""
    chain: Chain = ()
    """The agents that the call has come by."""
    who: str = "unknown"
    """The caller, for the log."""
    used: Callable[[Iterable[ModelUsage]], None] = _to_nobody
    """Takes the round-trips to models."""


class Calls:
    """Answers the calls of one agent."""

    def __init__(
        self,
        agent: str,
        runtime: AgentRuntime,
        *,
        admission: Admission,
        vision: Vision,
        model_called: Callable[[ModelFailure | None], None],
        output: OutputSchema | None = None,
        models: Collection[str] = (),
        defaults: Defaults | None = None,
        link: str = "",
        max_returns: int = 1,
        shortens: bool = False,
        is_model_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare.

        Args:
            agent: its name.
            runtime: makes its instances.
            admission: says when a call's turn has come.
            vision: the images that it takes.
            model_called: gets the outcome of each call whose LLM has answered (None) or failed.
            output: what answers have to fit, where a caller asks for nothing else.
            models: those that a call may have in place of the agent's own.
            defaults: what a turn has of which its caller says nothing.
            link: the agent in chains.
            max_returns: how often a call may come back to it that agents hand on to each other.
            is_model_down: whether the model is known to fail: then it is asked once.
            shortens: whether a conversation that is too long for the model goes on without its older turns.
        """
        self._defaults = defaults
        self._link = link
        self._max_returns = max_returns
        self._shortens = shortens
        self._is_model_down = is_model_down
        self._output = output
        self._models = models
        self._agent = agent
        self._runtime = runtime
        self._vision = vision
        self._admission = admission
        self._model_called = model_called
        self._creations = asyncio.Semaphore(MAX_CREATIONS)

    async def turn(self, read: Callable[[], TurnRequest], caller: Caller) -> TurnResult:
        """What one turn ends with.

        Args:
            read: checks what the client has sent; runs within the call, so that its refusals are counted and logged.
            caller: who asks, and who is told.

        Raises:
            FailedTurn: there is no answer; every failure that is not the client's going away.
        """
        began = time.monotonic()
        outcome: metrics.Outcome = "error"
        record, ignored = CallRecord(caller.surface, caller.who), False

        def tell(event: TurnEvent) -> None:
            nonlocal ignored
            record.note(event)
            if isinstance(event, Ignored):
                if ignored:  # the model is asked again, with less
                    return
                ignored = True
            caller.tell(event)

        telling = copy.replace(caller, tell=tell, used=record.use)
        with ExitStack() as stack:
            stack.callback(
                lambda: metrics.observe_send_message(self._agent, outcome, time.monotonic() - began)
            )
            stack.enter_context(known.during(caller.bearer))
            stack.enter_context(bound(request=caller.request_id))
            try:
                await pace().step()  # many calls that come at once begin one by one
                request = with_defaults(read(), self._defaults)
                stack.enter_context(bound(conversation=request.conversation_id))
                called = stack.enter_context(
                    span(caller.surface, agent=self._agent, request_id=caller.request_id)
                )
                stack.callback(lambda: set_outcome(called, outcome))
                record.begin(request)
                self._check_model(request)
                vision = self._vision_of(request)
                vision.refuse(request.images)
                self._check_chain(caller.chain)
                returned = self._link in caller.chain
                async with self._admission.place(handed=bool(caller.chain), returned=returned) as place:
                    result = await run_contained(
                        lambda: self._run_that_fits(request, telling, vision, place, lambda: record.acted)
                    )
            except asyncio.CancelledError:
                record.end("cancelled", time.monotonic() - began)
                raise
            except Exception as error:  # noqa: BLE001 - a caller gets an answer, whatever breaks
                failed = self._failed(error, caller, acted=record.acted)
                failed.__cause__ = error
                record.end("error", time.monotonic() - began, failed.kind)
            else:
                outcome = "ok"
                whole = result.incomplete is None
                record.end("ok" if whole else "incomplete", time.monotonic() - began, result.incomplete)
                if request.model_override is None:  # else another model's was it
                    self._model_called(None)
                return result
        raise failed  # out here, because a span would note it, with what the caller has sent

    def _check_chain(self, chain: Chain) -> None:
        """Refuse a call that agents have handed on to each other too often."""
        if (refusal := chain_refusal(chain, self._link, self._max_returns)) is not None:
            raise LoopError(refusal)

    def _check_model(self, request: TurnRequest) -> None:
        """Refuse another model than those that the agent lists."""
        model = request.model_override
        if model is None or model in self._models:
            return
        listed = f"it lists {', '.join(self._models)}" if self._models else "it lists none"
        raise ArgumentError(
            f"model_override: {quoted(model)} is not among the agent's `models:`; {listed}",
            "model_override",
        )

    def _vision_of(self, request: TurnRequest) -> Vision:
        """The images that the model of this call takes."""
        return (
            self._vision if request.model_override is None else self._runtime.vision(request.model_override)
        )

    def _failed(self, error: Exception, caller: Caller, *, acted: bool) -> FailedTurn:
        """What the caller gets to read of an error; what it says of the LLM and of the agent is reported and logged."""
        kind: FailureKind
        failure: ModelFailure | None = None
        match error:
            case ForbiddenError():
                return FailedTurn("forbidden", redact(str(error)), error)
            case ArgumentError():
                return FailedTurn("argument", redact(str(error)), error)
            case BusyError():
                return FailedTurn("busy", redact(str(error)), error)
            case LoopError():
                _log.warning(str(error))
                return FailedTurn("loop", str(error), error)
            case RaisedError():
                kind = "agent"
                message = f"code of the agent ended the call with {error}; the agent's log has the details"
                _log.error(f"code of the agent ended the call with {error}", exc_info=error.__cause__)
            case _ if (failure := model_failure(error)) is not None:
                kind = "model"
                message = str(error) if isinstance(error, CallError) else failure.sentence()
                _log.warning(redact(f"the model gave no answer: {message}: {failure.detail}"))
            case CallError():
                kind, message = "model", str(error)
                _log.warning(f"the model gave no answer: {redact(message)}")
            case FastAgentError():
                kind, message = "agent", f"the agent could not be made or run: {error.message}"
                _log.warning(message, exc_info=error)
            case _:
                kind = "internal"
                message = (
                    f"the call failed inside the worker ({type(error).__name__}); its log has the details"
                )
                _log.exception("the call failed", exc_info=error)
        self._report_failure(failure, caller.bearer)
        message = f"{redact(message)} (request_id {caller.request_id})"
        if failure is not None:
            failure = copy.replace(failure, detail=redact(failure.detail))
        return FailedTurn(kind, message, error, model_failure=failure, acted=acted)

    async def _run_that_fits(
        self,
        request: TurnRequest,
        caller: Caller,
        vision: Vision,
        place: object,
        has_acted: Callable[[], bool],
    ) -> TurnResult:
        """What the turn ends with, without older turns where the model cannot take them and the settings say so."""
        progress = Progress(caller.send_progress)
        turns = 0
        while True:
            try:
                result = await self._run(request, caller, vision, place, progress)
            except CallError as error:
                too_long = error.model_failure is not None and error.model_failure.kind == "context_length"
                # A tool that was called is not called again.
                if not (self._shortens and too_long) or has_acted():
                    raise
                if (less := shortened(request)) is None:
                    raise
                request, turns = less.request, turns + less.turns
                _log.warning(f"the conversation is too long for the model: {turns} older turns are left out")
            else:
                return copy.replace(result, turns_left_out=turns) if turns else result

    async def _run(
        self, request: TurnRequest, caller: Caller, vision: Vision, place: object, progress: Progress
    ) -> TurnResult:
        spoken = Spoken(caller.tell, takes_back=caller.takes_back)
        current = CurrentCall(
            request,
            caller.tell,
            spoken,
            caller.room,
            asks_again=not self._is_model_down(),
            chain=(*caller.chain, self._link),
            asking=partial(self._admission.asking, place),
        )
        with offered_to_llm(caller.bearer), as_current(current):
            async with AsyncExitStack() as stack:
                with span("prepare instance"):
                    async with self._creations:
                        await pace().step()
                        instance = await stack.enter_async_context(
                            self._runtime.instance(caller.bearer, self.observe, request.model_override)
                        )
                stack.callback(self._count, instance, caller)
                schema = request.output or self._output
                if schema is None:
                    spoken.speakers = instance.speakers  # else only the end shows which words are the answer
                history, message = conversation(request, vision)
                instance.load_history(history)
                await instance.check_tools(request)
                if ignored := await instance.ask_as_requested(request):
                    caller.tell(Ignored(ignored))
                await pace().step()  # of many calls at a time, the requests are made one by one

                async def answered(more: Mapping[str, Any]) -> PromptMessageExtended:
                    if request.resume:
                        return await instance.resume(progress, more)
                    return await instance.generate(message, progress, more)

                structured = None
                try:
                    if schema is None:
                        answer = await answered({})
                    else:
                        structured, answer = await structured_answer(
                            instance, schema, answered, message, progress
                        )
                finally:
                    await progress.close()
                content = result_content(instance.turn_behind(answer), answer)
                if structured is not None:
                    content = [TextContent(type="text", text=structured.text)]
                spoken.settle(self._runtime.agent, content)
                return TurnResult(
                    content=content,
                    rows=instance.rows(message, answer, request.history.rows),
                    usage=instance.turns(),
                    finish_reason="tool_calls" if instance.held else finish_reason(answer),
                    incomplete=None if instance.held else incomplete(answer, content),
                    structured=structured,
                )

    def _report_failure(self, failure: ModelFailure | None, bearer: str | None) -> None:
        """Report what the call's failure says of the LLM; nothing for other calls where the caller brings the key."""
        if failure is None or failure.row.health == "fine":
            return
        callers_own = bearer is not None or failure.kind == "key_missing"
        if not (callers_own and self._runtime.takes_callers_keys):
            self._model_called(failure)

    def _count(self, instance: Instance, caller: Caller) -> None:
        caller.used(instance.turns())
        for (server, outcome), n in instance.tool_calls.items():
            metrics.count_model_tool_calls(self._agent, server, outcome, n)
        for turn in instance.turns():
            metrics.count_llm_turn(self._agent, turn.model)
            for kind, n in turn.tokens.items():
                metrics.count_llm_tokens(self._agent, turn.model, kind, n)

    def observe(self, server: str, operation: str, well: bool, seconds: float) -> None:
        """One operation on a downstream server has ended."""
        named = _OPERATIONS.get(operation, operation.replace("/", "-"))
        metrics.observe_tool_call(self._agent, server, named, "ok" if well else "error", seconds)
