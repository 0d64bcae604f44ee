"""`docs/clients.md` says what real agents and a real registry do: each table and code block against them."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import httpx
import pytest
from mcp_types import TextContent
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from fakes.downstream import RunningDownstream, run_downstream
from fakes.llm_stub import Asked, Call, LlmStub, Turn, by_request, run_llm_stub
from pallas_common.protocol.agent.images import MAX_IMAGE_BYTES, MAX_IMAGES, MIME_TYPES
from pallas_common.protocol.reports import Status
from pallas_registry.catalogue.entries import OFFICIAL, PUBLISHER_PROVIDED
from pallas_registry.catalogue.pages import DEFAULT_LIMIT, LATEST, Query
from pallas_registry.deployment.model import Agent
from pallas_worker.interface.tools import SEND_MESSAGE_SCHEMA
from support.data.clients_page import PAGE, blocks, table, words
from support.data.image_data import PNG
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.worker.patience import make_patient
from support.worker.project import MODES, ask, bearing, call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp.client import Client
    from mcp_types import CallToolResult

FAMILY = """
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


def add(a: int, b: int) -> int:
    return a + b


@fast.agent(name="child", instruction="You are the child.", servers=["open"])
async def child() -> None: ...


@fast.agent(
    name="jarvis",
    instruction="Hello.",
    servers=["open", "trusted"],
    agents=["child"],
    function_tools=[add],
    default=True,
)
async def jarvis() -> None: ...
"""
PLAIN = """
from fast_agent import FastAgent

fast = FastAgent("test", parse_cli_args=False)


@fast.agent(name="{name}", instruction="Hello.", servers={servers!r}{more})
async def agent() -> None: ...
"""
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Setting(NamedTuple):
    """A deployment as a client sees it, and what its agents talk to."""

    fleet: Fleet
    stub: LlmStub
    open: RunningDownstream
    trusted: RunningDownstream

    def url(self, agent: str = "jarvis") -> str:
        return self.fleet.deployment.url(agent)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(f"{self.fleet.deployment.registry}{path}", **options)

    def post(self, body: Any, *, agent: str = "jarvis", path: str = "/mcp", **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = ACCEPT | {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(self.url(agent).removesuffix("/mcp") + path, content=content, headers=given)


def say(asked: Asked) -> Turn:
    """What the models say: some messages have an answer of their own."""
    if asked.user == "hold":
        return Turn(text="never", delay=3600)
    if asked.user == "break":
        return Turn(status=400, text="out of order")
    if asked.user.startswith("ask child") and not asked.tool_results:
        tool = next(name for name in asked.tools if "child" in name)
        return Turn(calls=(Call(tool, {"message": asked.user.partition("\n")[2]}),))
    return by_request(asked)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with ExitStack() as stack:
        stub = stack.enter_context(run_llm_stub(answer=say))
        servers = [stack.enter_context(run_downstream()) for _ in range(2)]
        deployment = make_deployment(tmp_path_factory.mktemp("clients") / "fleet", namespace="com.example")
        deployment.servers |= {
            "open": {"transport": "http", "url": servers[0].url},
            "trusted": {"transport": "http", "url": servers[1].url, "forward_inbound_auth": True},
            "gone": {"transport": "http", "url": "http://127.0.0.1:9/mcp"},
        }
        deployment.settings |= {
            "default_model": "openai.stub-model",
            "model_capabilities": {"vision": True},
            "openai": {"api_key": "sk-stub-0123456789", "base_url": stub.openai_url},
            "llm_retries": 0,
        }
        deployment.add("jarvis", icon="https://example.com/jarvis.svg")
        deployment.add("lame", servers=("gone",))
        deployment.add("keyless")
        deployment.add("narrow", max_concurrency=1, max_queue=0, max_request_bytes=4096)
        deployment.add("broken", "does_not_import")
        sources = {
            "jarvis": FAMILY,
            "lame": PLAIN.format(name="lame", servers=["gone"], more=""),
            "keyless": PLAIN.format(name="keyless", servers=[], more=", model='anthropic.never-heard-of'"),
            "narrow": PLAIN.format(name="narrow", servers=[], more=""),
        }
        for name, source in sources.items():
            (deployment.directory / "agents" / f"{name}.py").write_text(source)
        make_patient(deployment.directory / "agents")
        fleet = Fleet(deployment)
        for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
            fleet.environment.pop(variable, None)
        with fleet:
            fleet.wait(*sources)
            fleet.wait("broken", until="settled")
            yield Setting(fleet, stub, *servers)


# --- finding agents -----------------------------------------------------------------------------------------


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of all that is no container, as the page writes them."""
    if isinstance(value, dict):
        for key, item in value.items():
            short = {OFFICIAL: "<official>", PUBLISHER_PROVIDED: "<publisher>"}.get(key, str(key))
            yield from leaves(item, f"{path}.{short}" if path else short)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[]")
    else:
        yield path, value


def test_the_fields_of_an_entry(setting: Setting) -> None:
    servers = setting.get("/.well-known/mcp/server.json").json()["servers"]
    assert [entry["server"]["name"] for entry in servers] == [
        f"com.example/{name}" for name in ("jarvis", "lame", "keyless", "narrow")
    ]
    rows = {row[0]: row[1] for row in table("field of an entry")}
    rich, bare = (dict(leaves(servers[index])) for index in (0, 2))
    assert set(rich) == set(rows)
    assert set(bare) == {path for path, there in rows.items() if there == "always"}
    assert rich["server.icons[].sizes[]"] == "any"
    assert rich["server.remotes[].type"] == "streamable-http"
    assert rich["server.remotes[].url"] == setting.url().replace("127.0.0.1", "localhost")
    assert rich["server.capabilities.model"] == "stub-model"
    assert (rich["_meta.<official>.status"], rich["_meta.<official>.isLatest"]) == ("active", True)
    for name in (OFFICIAL, PUBLISHER_PROVIDED):
        assert f"`{name}`" in PAGE


def test_the_paths_of_the_registry_and_their_parameters(setting: Setting) -> None:
    for name in ("com.example/jarvis", "com.example%2Fjarvis"):
        for path, _ in table("path"):
            answer = setting.get(path.format(name=name, version="latest"))
            assert answer.status_code == 200, path
            assert "com.example/jarvis" in answer.text
            assert {"ETag", "Last-Modified"} <= {
                key.title().replace("Etag", "ETag") for key in answer.headers
            }
    parameters = {row[0]: row[1] for row in table("parameter")}
    names = [field.name for field in fields(Query)]
    assert list(parameters) == [
        {"after": "cursor"}.get(name, name) for name in ("limit", "after", *names[2:])
    ]
    assert (parameters["limit"], parameters["version"]) == (str(DEFAULT_LIMIT), LATEST)
    first = setting.get("/v0.1/servers?limit=3").json()
    assert first["metadata"]["count"] == 3
    rest = setting.get(f"/v0.1/servers?limit=3&cursor={first['metadata']['nextCursor']}").json()
    assert [entry["server"]["name"] for entry in rest["servers"]] == ["com.example/narrow"]
    assert "nextCursor" not in rest["metadata"]
    assert setting.get("/v0.1/servers?search=JARV").json()["metadata"]["count"] == 1
    assert setting.get("/v0.1/servers?updated_since=2999-01-01T00:00:00Z").json()["servers"] == []
    assert setting.get("/v0.1/servers?version=7.7.7").json()["servers"] == []
    for path, status in (("/v0.1/servers?limit=101", 400), ("/v0.1/servers/nobody/versions", 404)):
        answer = setting.get(path)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])


def run(setting: Setting, source: str, *arguments: str) -> list[str]:
    """What a program of the page prints, at this deployment's addresses."""
    source = source.replace("http://localhost:24200", setting.fleet.deployment.registry)
    source = source.replace("http://localhost:24201/mcp", setting.url())
    done = subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_programs_run(setting: Setting) -> None:
    everyone, poll, monitor = blocks("python")
    setting.stub.script(
        Turn(text="Let me look.", calls=(Call("open__echo", {"text": "fact"}),)), Turn(text="I am Jarvis.")
    )
    lines = run(setting, everyone, setting.fleet.deployment.registry, "Who are you?")
    jarvis = lines[: lines.index(next(line for line in lines if line.startswith("Lame is")))]
    assert jarvis[0].startswith("Jarvis is ")
    assert "  … open/echo: completed" in jarvis
    assert jarvis[-2:] == ["  (Let me look.)", "  I am Jarvis."]
    assert "  echo: Who are you?" in lines
    (keyless,) = [number for number, line in enumerate(lines) if line.startswith("Keyless is error: ")]
    assert lines[keyless + 1].startswith("Narrow is ok")
    assert run(setting, poll) == ["304"]
    assert run(setting, monitor) == ["ok"]


# --- connecting, tools, results -----------------------------------------------------------------------------


def test_the_revisions_of_the_protocol(setting: Setting) -> None:
    rows = {row[0]: row[1] for row in table("revision")}
    assert list(rows) == [*MODERN_PROTOCOL_VERSIONS, *reversed(HANDSHAKE_PROTOCOL_VERSIONS)]
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        assert rows[version] == "with `initialize`"
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        answer = setting.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert f'"protocolVersion":"{version}"' in answer.text

    async def act(client: Client) -> str:
        return client.protocol_version

    assert ask(setting.url(), "auto", act) == MODERN_PROTOCOL_VERSIONS[-1]


@pytest.mark.parametrize("mode", MODES)
def test_the_tools_and_their_arguments(setting: Setting, mode: str) -> None:
    async def act(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [row[0] for row in table("tool")] == [
            "send_message",
            "the agent's name, as `jarvis`",
            "get_health",
        ]
        assert list(tools) == ["send_message", "jarvis", "get_health"]
        assert tools["jarvis"].input_schema == tools["send_message"].input_schema == SEND_MESSAGE_SCHEMA
        assert tools["get_health"].input_schema["properties"] == {}
        schema = tools["send_message"].input_schema
        rows = {row[0]: (row[1], row[2] == "yes") for row in table("argument of `send_message`")}
        assert rows == {
            name: (prop["type"], name in schema["required"]) for name, prop in schema["properties"].items()
        }
        assert (await client.get_prompt("jarvis_history")).messages == []

    ask(setting.url(), mode, act)


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


@pytest.mark.parametrize("mode", MODES)
def test_the_result(setting: Setting, mode: str) -> None:
    _, example = blocks("json")
    expected = json.loads(example)
    first, answer = (block["text"] for block in expected)
    setting.stub.script(Turn(text=first, calls=(Call("open__echo", {"text": "x"}),)), Turn(text=answer))
    result = call(setting.url(), mode, "send_message", message="x")
    assert [block.model_dump(exclude_none=True) for block in result.content] == expected


def test_agents_remember_nothing(setting: Setting) -> None:
    rows = [
        {"role": "user", "content": "I am Ada"},
        {"role": "assistant", "content": "hello"},
        {"role": "cook"},
    ]
    call(setting.url(), "auto", "jarvis", message="and now?", history=rows, images=None)
    assert setting.stub.asked[-1].messages == 4
    call(setting.url(), "auto", "jarvis", message="again")
    assert setting.stub.asked[-1].messages == 2


def test_tool_calls_of_earlier_turns(setting: Setting) -> None:
    rows, _ = (json.loads(example) for example in blocks("json"))
    call(setting.url(), "auto", "jarvis", message="and now?", history=rows)
    instruction, *said, new = setting.stub.asked[-1].body["messages"]
    assert instruction["role"] == "system"
    assert [row | {"content": row["content"] or None} for row in said] == rows
    assert new == {"role": "user", "content": "and now?"}


def test_the_limits_of_images() -> None:
    assert f"At most {MAX_IMAGES} in one message, of at most {MAX_IMAGE_BYTES // 1024**2} MiB each" in PAGE
    assert all(f"`{type_}`" in PAGE for type_ in MIME_TYPES)


# --- progress, cancelling, bearers --------------------------------------------------------------------------


def pattern(written: str) -> re.Pattern[str]:
    """A pattern of the page as a regular expression."""
    parts = {"{server}": r"[^\s/]+", "{tool}": r"\S+", "{agent}": r"\S+", "N": r"[1-9]\d*"}
    tokens = re.split(r"(\{\w+\}|\bN\b)", written)
    return re.compile("".join(parts.get(token) or re.escape(token) for token in tokens))


@pytest.mark.parametrize("mode", MODES)
def test_the_patterns_of_progress(setting: Setting, mode: str) -> None:
    patterns = {row[0]: pattern(row[0]) for row in table("pattern")}
    for written, _, example in table("pattern"):
        assert [name for name, one in patterns.items() if one.fullmatch(example)] == [written]
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    relayed = [
        "research/look_up: started",
        "half way",
        "research step 2 (tool)",
        "research/look_up: completed",
    ]
    commands = [
        f"CALL open__report {json.dumps({'messages': relayed})}",
        f"CALL open__fail {json.dumps({'text': 'x'})}",
        f"CALL add {json.dumps({'a': 1, 'b': 2})}",
    ]

    async def act(client: Client) -> None:
        for message in ("\n".join(commands), f"ask child\nCALL open__echo {json.dumps({'text': 'deep'})}"):
            told.clear()
            await client.call_tool("jarvis", {"message": message}, progress_callback=on_progress)
            assert all(one[0] < two[0] for one, two in itertools.pairwise(told))
            for progress, total, said in told:
                found = {name for name, one in patterns.items() if said is not None and one.fullmatch(said)}
                assert len(found) == (said is not None), said
                ended = any(name.endswith((": completed", ": failed")) for name in found)
                assert total == (progress if ended else None)
                seen.update(found)
                messages.append(said)

    seen: set[str] = set()
    messages: list[str | None] = []
    ask(setting.url(), mode, act)
    assert seen == set(patterns)
    assert {"local/add: completed", "research/look_up: completed", "open/fail: failed"} <= set(messages)
    assert any(said is not None and said.startswith("agent/") and "child" in said for said in messages)
    said = "For a function of the agent's own module `{server}` is `local`, for a child agent it is `agent`."
    assert said in words()


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_is_cancelled_ends(setting: Setting, mode: str) -> None:
    running = f"{setting.url().removesuffix('/mcp')}/metrics"

    async def act(client: Client) -> None:
        before = len(setting.stub.asked)
        asking = asyncio.create_task(client.call_tool("jarvis", {"message": "hold"}))
        await asyncio.to_thread(setting.stub.loopback.wait_for, lambda _: len(setting.stub.asked) > before)
        page = await asyncio.to_thread(httpx.get, running)
        assert 'pallas_calls_running{agent="jarvis"} 1.0' in page.text
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    ask(setting.url(), mode, act)
    setting.fleet.await_that(
        lambda: 'pallas_calls_running{agent="jarvis"} 0.0' in httpx.get(running).text, "the call has ended"
    )


def test_a_bearer_goes_to_servers_that_are_opted_in_alone(setting: Setting) -> None:
    token = "a-callers-own-token"
    command = "\n".join(f"CALL {server}__echo {json.dumps({'text': 'x'})}" for server in ("open", "trusted"))

    async def act() -> None:
        async with bearing(setting.url(), token) as client:
            assert not (await client.call_tool("jarvis", {"message": command})).is_error

    asyncio.run(act())
    assert token in {request.bearer for request in setting.trusted.requests}
    assert token not in {request.bearer for request in setting.open.requests}
    assert token not in {asked.bearer for asked in setting.stub.asked}


# --- errors -------------------------------------------------------------------------------------------------

Told = tuple[int, int | None, bool]
"""HTTP status, JSON-RPC error code, whether it is an error result."""


def told(answer: httpx.Response) -> Told:
    """What an answer says, be it JSON or a stream of one event."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    text = lines[-1] if lines else answer.text
    document = json.loads(text) if text.startswith("{") else {}
    code = document["error"]["code"] if "error" in document else None
    return answer.status_code, code, bool(document.get("result", {}).get("isError"))


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)


def busy(setting: Setting) -> httpx.Response:
    """A call while the only place is taken."""
    answers: list[httpx.Response] = []

    async def act(client: Client) -> None:
        before = len(setting.stub.asked)
        holding = asyncio.create_task(client.call_tool("narrow", {"message": "hold"}))
        await asyncio.to_thread(setting.stub.loopback.wait_for, lambda _: len(setting.stub.asked) > before)
        answers.append(await asyncio.to_thread(setting.post, tool("narrow", message="x"), agent="narrow"))
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)

    ask(setting.url("narrow"), "auto", act)
    assert "the agent is busy" in answers[0].text
    return answers[0]


def down(setting: Setting) -> httpx.Response:
    answer = setting.post(tool("broken", message="x"), agent="broken")
    error = answer.json()["error"]
    assert int(answer.headers["Retry-After"]) == error["data"]["retry_after"] > 0
    assert "No module named" in error["message"]
    return answer


PROVOKED: dict[str, Callable[[Setting], list[httpx.Response]]] = {
    "an argument is missing, unknown or malformed": lambda s: [
        s.post(tool("jarvis", **arguments))
        for arguments in (
            {},
            {"message": "x", "temperature": 1},
            {"message": 3},
            {"message": "x", "images": [PNG]},
        )
    ],
    "the agent is busy": lambda s: [busy(s)],
    "the model gave no answer, or the agent failed": lambda s: [s.post(tool("jarvis", message="break"))],
    "there is no such tool": lambda s: [s.post(tool("harper", message="x"))],
    "there is no such prompt": lambda s: [s.post(request("prompts/get", name="harper_history"))],
    "there is no such method": lambda s: [s.post(request("tools/burn"))],
    "the body is not JSON": lambda s: [s.post(b"{")],
    "the body is no request, or a batch": lambda s: [s.post([tool("jarvis", message="x")]), s.post(3)],
    "the method is not POST": lambda s: [httpx.get(s.url(), headers=ACCEPT), httpx.delete(s.url())],
    "there is nothing at this path": lambda s: [s.post(tool("jarvis", message="x"), path="/sse")],
    "the request is larger than `max_request_bytes`": lambda s: [
        s.post(tool("narrow", message="x" * 5000), agent="narrow")
    ],
    "the agent is down": lambda s: [down(s)],
    "the Host header is neither a known name nor an address": lambda s: [
        s.post(tool("jarvis", message="x"), Host="elsewhere.example:80")
    ],
    "the request comes from a page of another origin": lambda s: [
        s.post(tool("jarvis", message="x"), Origin="https://elsewhere.example")
    ],
}


@pytest.mark.parametrize("row", table("what is wrong"), ids=lambda row: row[0])
def test_each_error_is_told_as_the_table_says(setting: Setting, row: list[str]) -> None:
    wrong, how, _ = row
    statuses = [int(number) for number in re.findall(r"(?<![-\d])\d{3}\b", how)]
    codes: list[int | None] = [int(number) for number in re.findall(r"-\d{5}", how)]
    for answer in PROVOKED[wrong](setting):
        status, code, is_error = told(answer)
        assert is_error == (how == "error result"), answer.text
        assert [code] == (codes or [None]), answer.text
        assert status in (statuses or [200, 404]), answer.text
        assert statuses or code is not None or status == 200


def test_every_error_of_the_page_is_provoked() -> None:
    assert [row[0] for row in table("what is wrong")] == list(PROVOKED)


def test_the_limits_are_those_of_the_code() -> None:
    defaults = {field.name: field.default for field in fields(Agent)}
    for name, default, _ in table("limit"):
        assert defaults[name] == int(default)


# --- health -------------------------------------------------------------------------------------------------


def test_the_statuses_and_fields_of_health(setting: Setting) -> None:
    assert [row[0] for row in table("status")] == list(get_args(Status))
    there = {row[0]: row[1] for row in table("field of `get_health`")}
    agents = {"ok": "narrow", "degraded": "lame", "error": "keyless"}

    def health(agent: str) -> dict[str, str]:
        (text,) = texts(call(setting.url(agent), "auto", "get_health"))
        document: dict[str, str] = json.loads(text)
        return document

    def has(agent: str, status: str) -> bool:
        return health(agent)["status"] == status

    for status, agent in agents.items():
        setting.fleet.await_that(partial(has, agent, status), agent)
        expected = {name for name, when in there.items() if when == "always" or status != "ok"}
        assert set(health(agent)) == expected
    assert "gone" in health("lame")["message"]
    assert "ANTHROPIC_API_KEY" in health("keyless")["message"]
