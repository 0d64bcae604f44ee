"""An agent that is made from a definition: its model, its servers, its prompt, and nothing that it does not say."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakes.downstream import run_downstream
from fakes.llm_stub import Turn, run_llm_stub
from pallas_common.protocol.agent.definition import ServerDefinition
from pallas_common.protocol.reports import ReadyReport
from support.worker.conversation.declared import NAME, SECRET, SECRETS, llm, run_declared
from support.worker.project import MODES, bearing, call, text
from support.worker.secrets import leaked

if TYPE_CHECKING:
    import pytest

    from fakes.llm_stub import Asked

MODELS = [
    ("openai", "qwen3-thinking"),
    ("openai", "openai/gpt-4.1"),
    ("generic", "qwen3:30b"),
    ("responses", "gpt-9"),
    ("anthropic", "claude-haiku-4-5"),
    ("anthropic", "claude-unknown"),
]
STDIO = Path(__file__).parents[3] / "fakes" / "stdio_server.py"

INERT = (
    "You deploy. {{currentDate}} {{file:/etc/passwd}} {{url:http://127.0.0.1:9/}} {{serverInstructions}} {{{x}}}\n"
    "\\{{y\\}} ${HOME} ${secret:litellm/API_KEY}\nfast-agent-subagents\nThe end."
)


def system(asked: Asked) -> str:
    """The system prompt, as a provider got it."""
    body = asked.body
    if "instructions" in body:
        return str(body["instructions"])
    if "system" in body:
        return "\n".join(part["text"] for part in body["system"])
    return "\n".join(row["content"] for row in body["messages"] if row["role"] == "system")


def web(url: str, **settings: Any) -> ServerDefinition:
    return ServerDefinition(name="web", settings={"transport": "http", "url": url, **settings})


def here(**settings: Any) -> ServerDefinition:
    command = {"transport": "stdio", "command": sys.executable, "args": ["-IS", str(STDIO)]}
    return ServerDefinition(name="here", settings=command | settings)


def test_models_are_asked_at_their_addresses_with_their_key_and_the_prompt_as_it_is_written(
    tmp_path: Path,
) -> None:
    environment = dict.fromkeys(
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GENERIC_API_KEY"), "sk-of-the-env"
    )
    environment |= dict.fromkeys(("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"), "X-Env: 1")
    config = "default_model: passthrough\nllm_retries: 0\n" + "".join(
        f"{section}: {{api_key: sk-of-the-settings, default_headers: {{X-Settings: '1'}}}}\n"
        for section in ("openai", "anthropic", "generic", "responses")
    )
    with run_llm_stub(models=[model for _, model in MODELS]) as stub:
        llms = [llm(stub, *model, name=f"m{number}") for number, model in enumerate(MODELS)]
        changes: dict[str, Any] = {"config": config, "environment": environment, "overrides": True}
        changes |= {"instruction": INERT, "llm": llms[0], "models": tuple(llms)}
        with run_declared(tmp_path, stub, **changes) as running:
            for mode in MODES:
                assert running.send("hi", mode) == "echo: hi"
            for number, (_, model) in enumerate(MODELS):
                for stream in (False, True):
                    answer, (asked,) = running.sent(model_override=f"m{number}", stream=stream)
                    assert "echo: hello" in answer.text
                    assert (asked.bearer, asked.model, system(asked)) == (SECRET, model, INERT)
            assert json.loads(text(call(running.worker.url, "auto", "get_health")))["status"] == "ok"
        assert "of-the-" not in str(stub.requests)
        assert not [request for request in stub.requests if {"x-env", "x-settings"} & request.headers.keys()]


def test_an_address_without_a_key_gets_none_of_the_deployment(tmp_path: Path) -> None:
    with run_llm_stub(models=["m"]) as stub:
        local = llm(stub, model="m", api_key=None)
        with run_declared(
            tmp_path, stub, llm=local, environment={"OPENAI_API_KEY": "sk-env-0123"}
        ) as running:
            assert running.send("hi") == "echo: hi"
            assert [asked.bearer for asked in stub.asked] == ["no-key"]
            assert json.loads(text(call(running.worker.url, "auto", "get_health")))["status"] == "ok"


def test_a_model_that_thinks_aloud_is_heard_as_it_does(tmp_path: Path) -> None:
    with run_declared(tmp_path) as running:
        running.stub.script(Turn(text="fine", reasoning="hmm, hmm"))
        chunks = [json.loads(line[6:]) for line in running.chat(stream=True).text.splitlines() if "{" in line]
        said = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert "".join(delta.get("reasoning_content", "") for delta in said) == "hmm, hmm"
        assert "".join(delta.get("content", "") for delta in said) == "fine"


def test_it_has_its_own_servers_and_no_other_tool(tmp_path: Path) -> None:
    (tmp_path / ".fast-agent" / "skills" / "s").mkdir(parents=True)
    (tmp_path / ".fast-agent" / "skills" / "s" / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    with run_downstream(name="web") as server:
        config = (
            "default_model: passthrough\nllm_retries: 0\n"
            f"mcp: {{servers: {{other: {{url: '{server.url}', transport: http}}}}}}\n"
        )
        servers = (web(server.url, headers={"X-Key": "k-${secret:litellm/API_KEY}"}), here())
        with run_declared(tmp_path, config=config, servers=servers) as running:
            ready = next(report for report in running.worker.reports if isinstance(report, ReadyReport))
            assert [part.name for part in ready.parts] == [NAME]
            assert [(server.name, server.transport) for server in ready.servers] == [
                ("web", "http"),
                ("here", "stdio"),
            ]
            said = running.send('CALL web__echo {"text": "one"}\nCALL here__pid {}')
            assert said.startswith('tools said: {"result":"one"} | pid ')
            assert {tool.partition("__")[0] for tool in running.stub.asked[0].tools} == {"web", "here"}
            assert {request.headers.get("x-key") for request in server.requests} == {f"k-{SECRET}"}


def test_a_caller_s_bearer_goes_to_the_server_that_opted_in(tmp_path: Path) -> None:
    with run_downstream(name="web") as server, run_downstream(name="other") as other:
        servers = (
            web(server.url, forward_inbound_auth=True),
            ServerDefinition(name="other", settings={"transport": "http", "url": other.url}),
        )
        with run_declared(tmp_path, servers=servers) as running:

            async def act() -> None:
                async with bearing(running.worker.url, "the-callers-token") as client:
                    await client.call_tool(
                        NAME, {"message": 'CALL web__echo {"text": "x"}\nCALL other__echo {"text": "y"}'}
                    )

            asyncio.run(act())
            called = [request for request in server.requests if request.rpc_method == "tools/call"]
            assert [request.headers.get("authorization") for request in called] == [
                "Bearer the-callers-token"
            ]
            assert not any("authorization" in request.headers for request in other.requests)


def test_a_secret_is_in_nothing_that_comes_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with run_downstream(name="web") as server:
        servers = (
            web(server.url, headers={"X-Key": "${secret:litellm/API_KEY}"}),
            here(env={"TOKEN": "${secret:litellm/API_KEY}"}),
        )
        with run_declared(tmp_path, servers=servers, log_level="DEBUG", root_log_level="DEBUG") as running:
            running.stub.script(Turn(status=400, text=f"what is {SECRET}?"))
            said = [running.send("x"), running.chat(stream=True).text, running.chat().text]
            said += [running.chat(stream=True).text, str(call(running.worker.url, "auto", "get_health"))]
            process = Path("/proc", str(running.worker.process.pid))
            said += [(process / name).read_bytes().decode("latin-1") for name in ("environ", "cmdline")]
            said += [str(running.worker.reports)]
            running.worker.stop()
            running.worker.wait_until(lambda it: it.ended)
    kept = [path.read_bytes().decode("latin-1") for path in (tmp_path / "metrics").iterdir()]
    assert leaked("".join(said + kept), SECRETS.values()) == []
    assert leaked(capfd.readouterr().err, SECRETS.values()) == []
    named = [
        record["name"] for record in running.worker.records if leaked(json.dumps(record), SECRETS.values())
    ]
    assert {name.partition(".")[0] for name in named} <= {"openai", "httpcore", "httpcore2", "aiohttp"}, named
