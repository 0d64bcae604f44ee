"""Turns of a declared agent: its defaults on the wire, models in place of its own, its tools, and its cap."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import Asked, Call, Turn, run_llm_stub
from pallas_common.protocol.agent.definition import LlmDefinition, ServerDefinition
from pallas_common.protocol.reports import FailedReport, ReadyReport
from support.worker.conversation.declared import NAME, Declared, llm, run_declared
from support.worker.project import MODES, call

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

MODELS = {
    "chat": ("openai", "gpt-4.1"),
    "open": ("generic", "qwen3:30b"),
    "responses": ("responses", "gpt-4.1"),
    "anthropic": ("anthropic", "claude-haiku-4-5?reasoning=off"),
}
DEFAULTS = {
    "temperature": 0.25,
    "max_tokens": 4096,
    "stop": ["</deploy>"],
    "top_k": 7,
    "seed": 42,
    "tools_allowlist": ["web__*"],
    "parallel_tool_calls": False,
}
WIRE: dict[str, dict[str, Any]] = {
    "chat": {"temperature": 0.25, "max_tokens": 4096, "stop": ["</deploy>"], "seed": 42, "top_k": None},
    "open": {"temperature": 0.25, "max_tokens": 4096, "stop": ["</deploy>"], "seed": 42, "top_k": 7},
    "responses": {"temperature": 0.25, "max_output_tokens": 4096, "parallel_tool_calls": False},
    "anthropic": {"temperature": 0.25, "max_tokens": 4096, "stop_sequences": ["</deploy>"], "top_k": 7},
}
IGNORED = {"chat": {"top_k"}, "open": set(), "responses": {"stop", "top_k", "seed"}, "anthropic": {"seed"}}
STDIO = Path(__file__).parents[3] / "fakes" / "stdio_server.py"
HERE = ServerDefinition(
    name="here", settings={"transport": "stdio", "command": sys.executable, "args": ["-IS", str(STDIO)]}
)


def named(answer: httpx.Response) -> set[str]:
    """What the answer says was not taken."""
    return {part.strip() for part in answer.headers.get("pallas-ignored", "").split(",") if part.strip()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Declared]:
    """An agent with defaults, and a model of each family in place of its own."""
    with run_llm_stub() as stub, run_downstream(name="web") as server:
        web = ServerDefinition(name="web", settings={"transport": "http", "url": server.url})
        models = tuple(llm(stub, *model, name=name) for name, model in MODELS.items())
        with run_declared(
            tmp_path_factory.mktemp("turns"),
            stub,
            llm=models[0],
            models=models,
            parameters=DEFAULTS,
            servers=(web, HERE),
            overrides=True,
        ) as running:
            yield running


@pytest.mark.parametrize("name", MODELS)
def test_its_defaults_are_on_the_wire_of_each_provider_or_named(shared: Declared, name: str) -> None:
    answer, (asked,) = shared.sent(model_override=name)
    assert {field: asked.body.get(field) for field in WIRE[name]} == WIRE[name]
    assert named(answer) == IGNORED[name]
    assert asked.model == MODELS[name][1].partition("?")[0]
    assert {tool.partition("__")[0] for tool in asked.tools} == {"web"}


@pytest.mark.parametrize("mode", MODES)
def test_mcp_has_all_defaults(shared: Declared, mode: str) -> None:
    before = len(shared.stub.asked)
    shared.send("hi", mode)
    asked = shared.stub.asked[before]
    assert {field: asked.body.get(field) for field in WIRE["chat"]} == WIRE["chat"]


def test_a_request_comes_before_a_default_and_null_clears_it(shared: Declared) -> None:
    _, (asked,) = shared.sent(temperature=1, max_completion_tokens=7, seed=None, tools_allowlist=None)
    assert (asked.body["temperature"], asked.body["max_tokens"], asked.body.get("seed")) == (1, 7, None)
    assert asked.body["stop"] == ["</deploy>"]
    assert {tool.partition("__")[0] for tool in asked.tools} == {"web", "here"}
    answer, (cleared,) = shared.sent(model_override="open", top_k=None, stop=None, temperature=None)
    assert not cleared.body.keys() & {"top_k", "stop", "temperature"}
    assert named(answer) == set()
    _, (after,) = shared.sent()
    assert after.body["temperature"] == 0.25


def test_what_a_default_says_and_the_model_lacks_is_in_the_log(shared: Declared) -> None:
    warnings = [message for message in shared.worker.messages("WARNING") if "defaultParams" in message]
    assert warnings == ["defaultParams.top_k is left out: the model does not take it"]


def test_another_model_than_the_agent_lists_is_refused(shared: Declared) -> None:
    answer, asked = shared.sent(model_override="gpt-4.1")
    assert (answer.status_code, asked) == (400, [])
    assert "it lists chat, open, responses, anthropic" in answer.json()["error"]["message"]


def test_a_default_that_cannot_be_honoured_is_named_and_refuses_nobody(tmp_path: Path) -> None:
    parameters = {"tool_choice": "required", "extra": {"x_knob": 1}, "reasoning_effort": "max"}
    with run_llm_stub() as stub:
        model = llm(stub, "openai", "o3")
        with run_declared(tmp_path, stub, llm=model, parameters=parameters, overrides=True) as running:
            answer, (asked,) = running.sent()
            assert asked.body["x_knob"] == 1
            assert named(answer) == {"tool_choice", "reasoning_effort"}
            refused, none = running.sent(tool_choice="required")
            assert (refused.status_code, none) == (400, [])
            _, (cleared,) = running.sent(extra=None)
            assert "x_knob" not in cleared.body
            _, (more,) = running.sent(extra={"y_knob": 2})
            assert (more.body["x_knob"], more.body["y_knob"]) == (1, 2)
            assert sum("defaultParams." in message for message in running.worker.messages("WARNING")) == 2


def test_answers_have_the_form_of_the_definition_unless_a_caller_wants_another(tmp_path: Path) -> None:
    form = {"type": "json_object"}
    with run_declared(tmp_path, parameters={"response_format": form}) as running:
        running.stub.script(Turn(text='{"a": 1}'))
        assert running.sent()[0].json()["choices"][0]["message"]["content"] == '{"a": 1}'
        for said in (None, {"type": "text"}):
            running.stub.script(Turn(text="words"))
            assert running.sent(response_format=said)[0].json()["choices"][0]["message"]["content"] == "words"


def test_it_calls_and_sees_no_tool_but_those_of_its_patterns(tmp_path: Path) -> None:
    with run_downstream(name="web") as server:
        web = ServerDefinition(name="web", settings={"transport": "http", "url": server.url})
        patterns = ("web__e*", "here__p?d", "none__*")
        with run_declared(tmp_path, servers=(web, HERE), tools=patterns) as running:
            ready = next(report for report in running.worker.reports if isinstance(report, ReadyReport))
            assert ready.parts[0].tools == ("web__echo", "here__pid")
            assert any("'none__*' means no tool" in message for message in running.worker.messages("WARNING"))
            for tool in ("web__add", "add", "WEB__ADD"):
                running.stub.script(Turn(calls=(Call(tool, {"a": 1, "b": 2}),)))
                said = running.send("x")
                assert "is not available to this agent; available tools: here__pid, web__echo" in said
            assert not [request for request in server.requests if request.rpc_method == "tools/call"]
            assert {asked.tools for asked in running.stub.asked} == {("web__echo", "here__pid")}
            _, (narrow,) = running.sent(tools_allowlist=["here__*"])
            assert narrow.tools == ("here__pid",)
            wide, _ = running.sent(tools_allowlist=["web__add"])
            assert (wide.status_code, wide.json()["error"]["param"]) == (400, "tools_allowlist")


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_turn_ends_after_so_many_rounds_of_tool_calls_and_says_so(tmp_path: Path, rounds: int) -> None:
    def always(_: Asked) -> Turn:
        return Turn(text="once more", calls=(Call("here__pid"),))

    with (
        run_llm_stub(answer=always) as stub,
        run_declared(tmp_path, stub, servers=(HERE,), max_iterations=rounds) as running,
    ):
        answer, asked = running.sent()
        assert len(asked) == rounds
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        roles = [row["role"] for row in answer.json()["pallas"]["messages"]]
        assert roles == ["user", *(["assistant", "tool"] * rounds)]
        assert not call(running.worker.url, "auto", NAME, message="x").is_error
        assert len(stub.asked) == 2 * rounds


def test_an_output_schema_holds_for_both_surfaces(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with run_declared(tmp_path, output_schema=schema) as running:
        running.stub.script(Turn(text='{"a": 1}'), Turn(text='{"a": 2}'))
        assert call(running.worker.url, "auto", NAME, message="x").structured_content == {"a": 1}
        assert json.loads(running.chat().json()["choices"][0]["message"]["content"]) == {"a": 2}


def test_a_broken_definition_fails_for_good_in_one_line(tmp_path: Path) -> None:
    unknown = LlmDefinition(name="house", provider="opena", model="m")
    with run_declared(tmp_path, llm=unknown, ready=False) as running:
        running.worker.wait_until(lambda it: it.ended)
        (failed,) = [report for report in running.worker.reports if isinstance(report, FailedReport)]
        assert failed == FailedReport(
            message="llm house: type: 'opena' is no provider of fast-agent's; did you mean openai?",
            permanent=True,
        )
        assert running.worker.process.wait(60) == 78


def test_a_model_that_fast_agent_does_not_know_is_the_agent_s_mistake(tmp_path: Path) -> None:
    with run_declared(tmp_path, llm=None, model="nothing-known", ready=False) as running:
        running.worker.wait_until(lambda it: it.ended)
        (failed,) = [report for report in running.worker.reports if isinstance(report, FailedReport)]
        assert failed.permanent
        assert "nothing-known" in failed.message
        assert "correct `model:` of the agent or of its llm" in failed.message
