"""A worker's HTTP and MCP wiring with what the conformance suite wants to find behind it, in a process of its own.

Knows the worker's application and what the suite's scenarios ask for; no agent, no fast-agent. It shows that what
a worker leaves out is left out because it does not have it, and not because its wiring could not serve it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsRequest,
    ListToolsResult,
    MissingRequiredClientCapabilityErrorData,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingCapability,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    UnsubscribeRequestParams,
)

from pallas_common.http.connections import Connections
from pallas_common.http.server import HttpServer
from pallas_common.protocol.agent.source import AgentSource
from pallas_common.protocol.spec import WorkerSpec
from pallas_worker.http.mcp_app import WorkerApp
from pallas_worker.interface.turn import TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from pallas_common.protocol.reports import HealthReport, Status

    Context = ServerRequestContext[Any]

ANYTHING: dict[str, Any] = {"type": "object"}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
PAUSE = 0.01
"""Seconds between two notifications of a tool that sends several."""

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}
    },
    "properties": {
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def image() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, value: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return EmbeddedResource(type="resource", resource=contents)


CONTENTS: dict[str, list[Any]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [AudioContent(type="audio", data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        image(),
        embedded(
            "test://mixed-content-resource", "application/json", json.dumps({"test": "data", "value": 123})
        ),
    ],
    "json_schema_2020_12_tool": [text("ok")],
    "test_header_parameter": [text("ok")],
}
"""Tools with an answer that is always the same."""

PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
"""Prompt → its required arguments."""

RESOURCES = {
    "test://static-text": "text/plain",
    "test://static-binary": "image/png",
    "test://watched-resource": "text/plain",
}
TEMPLATE = "test://template/{id}/data"


def form(message: str, name: str, kind: str = "string") -> ElicitRequest:
    """Ask a person for one value."""
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(question: str) -> CreateMessageRequest:
    """Ask the client's LLM."""
    message = SamplingMessage(role="user", content=text(question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


QUESTIONS: dict[str, dict[str, Any]] = {
    "test_input_required_result_elicitation": {"user_name": form("What is your name?", "name")},
    "test_input_required_result_sampling": {"capital_question": sampling("What is the capital of France?")},
    "test_input_required_result_list_roots": {"client_roots": ListRootsRequest()},
    "test_input_required_result_request_state": {"confirm": form("Please confirm", "ok", "boolean")},
    "test_input_required_result_tampered_state": {"confirm": form("Please confirm", "ok", "boolean")},
    "test_input_required_result_multiple_inputs": {
        "user_name": form("What is your name?", "name"),
        "greeting": sampling("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    },
    "test_streaming_elicitation": {"user_name": form("What is your name?", "name")},
}
"""Tools that answer once the client has given what they ask for."""

STATEFUL = {
    "test_input_required_result_request_state",
    "test_input_required_result_tampered_state",
    "test_input_required_result_multiple_inputs",
}
"""Those of them that hand the client a state to bring back."""

ROUNDS = {
    None: ("step1", form("Step 1: What is your name?", "name")),
    "step1": ("step2", form("Step 2: What is your favorite color?", "color")),
}
"""State → what is asked next."""


SPEC = WorkerSpec(
    agent="demo",
    source=AgentSource("module", ""),
    title="Demo",
    description="An agent of the tests",
    version="1.0.0",
    deployment="tests",
    port=1,
    generation=1,
    directory="",
    allowed_hosts=("localhost", "127.0.0.1"),
    metrics_directory="",
    metrics_slot="",
    stop_timeout=1.0,
    log_level="INFO",
    root_log_level="INFO",
)


class Seal:
    """States that a client carries and cannot change."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes()

    def close(self, state: str) -> str:
        return f"{state}.{self._mark(state)}"

    def open(self, sealed: str) -> str:
        state, _, mark = sealed.rpartition(".")
        if not hmac.compare_digest(mark, self._mark(state)):
            raise MCPError(INVALID_PARAMS, "requestState was changed")
        return state

    def _mark(self, state: str) -> str:
        return hmac.new(self._key, state.encode(), hashlib.sha256).hexdigest()


class FixtureApp(WorkerApp):
    """The worker's application; its own tools and prompt are there, and the suite's beside them."""

    def __init__(self, spec: WorkerSpec) -> None:
        nobody: Any = Nobody()
        super().__init__(spec, nobody, nobody)
        self._seal = Seal()
        self._handlers: dict[str, Callable[[Context, CallToolRequestParams], Any]] = {
            "test_error_handling": self._fail,
            "test_tool_with_progress": self._report_progress,
            "test_tool_with_logging": self._log,
            "test_logging_tool": self._log,
            "test_missing_capability": self._need_sampling,
            "test_input_required_result_multi_round": self._ask_in_rounds,
            "test_input_required_result_capabilities": self._ask_what_is_declared,
            "test_sampling": self._ask_at_once,
            "test_elicitation": self._ask_at_once,
            "test_elicitation_sep1034_defaults": self._ask_at_once,
            "test_elicitation_sep1330_enums": self._ask_at_once,
            "test_trigger_tool_change": self._change_tools,
            "test_trigger_prompt_change": self._change_prompts,
        }
        self._changes = {"tools": 0, "prompts": 0}
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        add: Any = self.server.add_request_handler
        add("resources/list", PaginatedRequestParams, self._list_resources)
        add("resources/templates/list", PaginatedRequestParams, self._list_templates)
        add("resources/read", ReadResourceRequestParams, self._read_resource)
        add("resources/subscribe", SubscribeRequestParams, self._empty)
        add("resources/unsubscribe", UnsubscribeRequestParams, self._empty)
        add("subscriptions/listen", SubscriptionsListenRequestParams, self._listening)
        add("completion/complete", CompleteRequestParams, self._complete)
        add("logging/setLevel", SetLevelRequestParams, self._empty)

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        own = await super()._list_tools(context, params)
        names = [*CONTENTS, *QUESTIONS, *self._handlers]
        ours = [Tool(name=name, description=name, input_schema=self._input_schema(name)) for name in names]
        new = [
            Tool(name=f"changed_{number}", description="new", input_schema=ANYTHING)
            for number in range(self._changes["tools"])
        ]
        return ListToolsResult(tools=[*own.tools, *ours, *new])

    def _input_schema(self, name: str) -> dict[str, Any]:
        match name:
            case "json_schema_2020_12_tool":
                return SCHEMA_2020_12
            case "test_header_parameter":
                return HEADER_SCHEMA
        return ANYTHING

    def _header_schema(self, name: str) -> dict[str, Any]:
        return self._input_schema(name)

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> Any:
        if params.name in CONTENTS:
            return CallToolResult(content=CONTENTS[params.name])
        if params.name in QUESTIONS:
            return self._ask(params)
        if params.name in self._handlers:
            return await self._handlers[params.name](context, params)
        return await super()._call_tool(context, params)

    def _ask(self, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        questions = QUESTIONS[params.name]
        responses = params.input_responses or {}
        if params.request_state is not None:
            self._seal.open(params.request_state)
        missing = {key: question for key, question in questions.items() if key not in responses}
        if missing:
            state = self._seal.close(params.name) if params.name in STATEFUL else None
            return InputRequiredResult(input_requests=missing, request_state=state)
        said = json.dumps({key: responses[key].model_dump(mode="json") for key in questions})
        return CallToolResult(content=[text(f"state-ok {said}")])

    async def _ask_in_rounds(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        state = self._seal.open(params.request_state) if params.request_state is not None else None
        if state not in ROUNDS or (state is not None and state not in (params.input_responses or {})):
            return CallToolResult(content=[text("done")])
        key, question = ROUNDS[state]
        return InputRequiredResult(input_requests={key: question}, request_state=self._seal.close(key))

    async def _ask_what_is_declared(
        self, context: Context, params: CallToolRequestParams
    ) -> InputRequiredResult:
        declared = context.session.client_capabilities or ClientCapabilities()
        questions: dict[str, Any] = {}
        if declared.sampling is not None:
            questions["question"] = sampling("What is the capital of France?")
        if declared.elicitation is not None:
            questions["user_name"] = form("What is your name?", "name")
        return InputRequiredResult(input_requests=questions, request_state=self._seal.close("asked"))

    async def _ask_at_once(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """As revisions before 2026-07-28 do it; without a session there is no way to the client."""
        schema = {"type": "object", "properties": {"username": {"type": "string"}}}
        answer = await context.session.elicit_form("Who are you?", schema, context.request_id)
        return CallToolResult(content=[text(answer.action)])

    async def _need_sampling(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        needed = ClientCapabilities(sampling=SamplingCapability())
        if not context.session.check_client_capability(needed):
            data = MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
            fields = data.model_dump(by_alias=True, mode="json", exclude_none=True)
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "The client must declare sampling", fields)
        return CallToolResult(content=[text("ok")])

    async def _fail(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        reason = text("This tool intentionally returns an error for testing")
        return CallToolResult(is_error=True, content=[reason])

    async def _report_progress(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        for progress in (0, 50, 100):
            await context.session.report_progress(progress, 100)
            await asyncio.sleep(PAUSE)
        return CallToolResult(content=[text("done")])

    async def _log(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.session.send_log_message("info", line, related_request_id=context.request_id)
            await asyncio.sleep(PAUSE)
        return CallToolResult(content=[text("done")])

    async def _change_tools(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await self._change("tools", ToolsListChanged())

    async def _change_prompts(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await self._change("prompts", PromptsListChanged())

    async def _change(self, what: str, event: ServerEvent) -> CallToolResult:
        self._changes[what] += 1
        await self._bus.publish(event)
        return CallToolResult(content=[text("changed")])

    def end_streams(self) -> None:
        """Let nobody listen any more."""
        self._listening.close()

    async def _list_prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        own = await super()._list_prompts(context, params)
        ours = [
            Prompt(
                name=name,
                description=name,
                arguments=[PromptArgument(name=it, description=it, required=True) for it in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
        new = [
            Prompt(name=f"changed_{number}", description="new") for number in range(self._changes["prompts"])
        ]
        return ListPromptsResult(prompts=[*own.prompts, *ours, *new])

    async def _get_prompt(self, context: Context, params: GetPromptRequestParams) -> Any:
        if params.name not in PROMPTS:
            return await super()._get_prompt(context, params)
        if params.name == "test_input_required_result_prompt" and not params.input_responses:
            question = form("What context should the prompt use?", "context")
            return InputRequiredResult(input_requests={"user_context": question})
        contents = prompt_contents(params.name, params.arguments or {}, params.input_responses or {})
        return GetPromptResult(messages=[PromptMessage(role="user", content=content) for content in contents])

    async def _list_resources(self, context: Context, params: PaginatedRequestParams) -> ListResourcesResult:
        return ListResourcesResult(
            resources=[
                Resource(uri=uri, name=uri, description=uri, mime_type=mime_type)
                for uri, mime_type in RESOURCES.items()
            ]
        )

    async def _list_templates(
        self, context: Context, params: PaginatedRequestParams
    ) -> ListResourceTemplatesResult:
        template = ResourceTemplate(uri_template=TEMPLATE, name="template", mime_type="application/json")
        return ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return ReadResourceResult(contents=[resource_contents(params.uri)])

    async def _complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        return CompleteResult(completion=Completion(values=[], total=0, has_more=False))

    async def _empty(self, context: Context, params: Any) -> EmptyResult:
        return EmptyResult()


class Nobody:
    """Stands where the worker's agent and its health would be."""

    async def turn(self, *_: object) -> TurnResult:
        return TurnResult(content=[text("Nobody is here.")])

    async def newest(self) -> HealthReport:
        raise NotImplementedError

    @property
    def status(self) -> Status:
        return "ok"


def prompt_contents(name: str, arguments: Mapping[str, str], responses: Mapping[str, Any]) -> list[Any]:
    """What the messages of a prompt hold."""
    match name:
        case "test_simple_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            arg1, arg2 = arguments.get("arg1"), arguments.get("arg2")
            return [text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(
                arguments["resourceUri"], "text/plain", "Embedded resource content for testing."
            )
            return [resource, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            return [image(), text("Please analyze the image above.")]
    answer = responses["user_context"]
    assert isinstance(answer, ElicitResult)
    return [text(f"Use this context: {(answer.content or {}).get('context')}")]


def resource_contents(uri: str) -> TextResourceContents | BlobResourceContents:
    """What a resource holds."""
    if RESOURCES.get(uri) == "text/plain":
        return TextResourceContents(
            uri=uri, mime_type="text/plain", text="This is the content of the static text resource."
        )
    if uri == "test://static-binary":
        return BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        identifier = uri.removeprefix(before).removesuffix(after)
        data = {"id": identifier, "templateTest": True, "data": f"Data for ID: {identifier}"}
        return TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


async def main(listener: socket.socket) -> None:
    """Serve on `listener` until SIGTERM, as `pallas_worker.process.serve` does."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    app = FixtureApp(SPEC)
    asgi = app.asgi(SPEC.allowed_hosts)
    async with app.server.session_manager.run():
        http = HttpServer(asgi, listener, Connections("fixtures", 1000))
        http.start()
        await stopping.wait()
        app.end_streams()
        await http.drain(SPEC.stop_timeout)


if __name__ == "__main__":
    asyncio.run(main(socket.socket(fileno=int(sys.argv[1]))))
