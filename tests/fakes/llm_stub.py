"""A fake of an LLM provider on loopback: OpenAI's two APIs and Anthropic's, scripted, recorded, failing.

Knows the two providers' HTTP APIs; must not know anything of Pallas. What it answers it reads from the
request alone, unless it is scripted, so that any number of callers can use it at once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fakes.llm import anthropic, openai, responses
from fakes.loopback import Fault, Loopback, Recorded, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from starlette.requests import Request

__all__ = ["Asked", "Call", "Fault", "LlmStub", "Recorded", "Turn", "Usage", "by_request", "run_llm_stub"]

_COMMAND = re.compile(r"^CALL (?P<tool>\S+) (?P<arguments>\{.*\})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one turn; `cached` is part of `input`, `reasoning` of `output`, as OpenAI counts."""

    input: int = 100
    output: int = 20
    cached: int = 0
    reasoning: int = 0
    cache_write: int = 0
    """Anthropic only."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the model."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None
    """Say this text in place of the arguments, whether it is JSON or not."""
    id: str | None = None
    """In place of one that is like no other."""

    def text(self) -> str:
        """The arguments as the model writes them."""
        return json.dumps(self.arguments) if self.raw is None else self.raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of the model: a text, tool calls, or an HTTP error."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    """What it thinks before that: readable and, where the API has such a thing, encrypted or signed as well."""
    usage: Usage = Usage()
    delay: float = 0.0
    """Seconds before the answer begins, and again before each further piece of a streamed one."""
    status: int | None = None
    """Answer with this HTTP status instead, and `text` as the error's message."""
    code: str = "stub"
    """Of an error of OpenAI's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of an error."""
    finish: str | None = None
    """Why a chat completion has ended, where it is not as usual."""
    cut: bool = False
    """End a streamed answer in the middle."""
    dies: bool = False
    """Break the connection off in the middle of a streamed answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a turn, the same for all APIs. `user` is the newest user message's text."""

    model: str
    user: str
    tool_results: tuple[str, ...]
    """The texts of the tool results at the end of the conversation; empty if it ends with the user."""
    tools: tuple[str, ...]
    images: int
    """Images in the whole conversation."""
    messages: int
    bearer: str | None
    """The API key that came with it."""
    body: Mapping[str, Any] = field(repr=False)


def by_request(asked: Asked) -> Turn:
    """The default answer: read from the request alone.

    A line `CALL tool {"json": …}` in the user's message calls that tool (as many lines as there are, in
    parallel); tool results are told back as `tools said: …`; anything else is echoed as `echo: …`.
    """
    if asked.tool_results:
        return Turn(text=f"tools said: {' | '.join(asked.tool_results)}")
    calls = tuple(
        Call(match["tool"], json.loads(match["arguments"])) for match in _COMMAND.finditer(asked.user)
    )
    return Turn(calls=calls) if calls else Turn(text=f"echo: {asked.user}")


class LlmStub:
    """A running stub."""

    def __init__(self, models: Iterable[str], answer: Callable[[Asked], Turn]) -> None:
        self.models = list(models)
        """The ids that the lists of models have; may be changed while it runs."""
        self.answer = answer
        """Gives each turn that is not scripted; may be replaced while it runs."""
        self.asked: list[Asked] = []
        """All requests for a turn so far; `loopback.wait_for` looks again after each."""
        self._script: Iterator[Turn] = iter(())
        self._numbers = itertools.count(1)
        self.loopback: Loopback

    @property
    def openai_url(self) -> str:
        """`base_url` for OpenAI's clients."""
        return f"{self.loopback.origin}/v1"

    @property
    def anthropic_url(self) -> str:
        """`base_url` for Anthropic's clients."""
        return self.loopback.origin

    @property
    def requests(self) -> list[Recorded]:
        """All HTTP requests so far, those for lists of models too."""
        return list(self.loopback.requests)

    def script(self, *turns: Turn) -> None:
        """Answer with these turns first, one request after another."""
        self._script = iter(turns)

    def number_from(self, number: int) -> None:
        """Name the next answer, and its tool calls, by this number, and those that follow by the next ones."""
        self._numbers = itertools.count(number)

    def app(self) -> Starlette:
        """The APIs as an application."""
        return Starlette(
            routes=[
                Route("/v1/models", self._list_models),
                Route("/v1/models/{model:path}", self._get_model),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/responses", self._responses, methods=["POST"]),
                Route("/v1/messages", self._messages, methods=["POST"]),
            ]
        )

    async def _list_models(self, _: Request) -> Response:
        entries = [
            {"id": model, "object": "model", "created": 0, "owned_by": "stub"} for model in self.models
        ]
        return JSONResponse({"object": "list", "data": entries})

    async def _get_model(self, request: Request) -> Response:
        model = request.path_params["model"]
        if model not in self.models:
            error = {"type": "not_found_error", "message": f"model: {model}"}
            return JSONResponse({"type": "error", "error": error}, 404)
        return JSONResponse(
            {"type": "model", "id": model, "display_name": model, "created_at": "2026-01-01T00:00:00Z"}
        )

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        key = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        turn = await self._turn(Asked(bearer=key, body=body, **openai.read(body)))
        if turn.status is not None:
            return JSONResponse(openai.error(turn.text, turn.code), turn.status, turn.headers)
        return openai.answer(body, turn, next(self._numbers))

    async def _responses(self, request: Request) -> Response:
        body = await request.json()
        key = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        turn = await self._turn(Asked(bearer=key, body=body, **responses.read(body)))
        if turn.status is not None:
            return JSONResponse(openai.error(turn.text, turn.code), turn.status, turn.headers)
        return responses.answer(body, turn, next(self._numbers))

    async def _messages(self, request: Request) -> Response:
        body = await request.json()
        turn = await self._turn(
            Asked(bearer=request.headers.get("x-api-key"), body=body, **anthropic.read(body))
        )
        if turn.status is not None:
            return JSONResponse(anthropic.error(turn.text), turn.status, turn.headers)
        return anthropic.answer(body, turn, next(self._numbers))

    async def _turn(self, asked: Asked) -> Turn:
        self.asked.append(asked)
        self.loopback.look_again()
        turn = next(self._script, None) or self.answer(asked)
        await asyncio.sleep(turn.delay)
        return turn


@contextmanager
def run_llm_stub(
    *,
    models: Iterable[str] = ("stub-model",),
    answer: Callable[[Asked], Turn] = by_request,
    fault: Callable[[Recorded], Fault | None] | Fault | None = None,
    port: int = 0,
) -> Iterator[LlmStub]:
    """Run a stub until the block ends; `fault` is as in `run_downstream`."""
    stub = LlmStub(models, answer)
    decide = (lambda _: fault) if isinstance(fault, Fault) else fault
    with serve(stub.app(), fault=decide, port=port) as stub.loopback:
        yield stub
