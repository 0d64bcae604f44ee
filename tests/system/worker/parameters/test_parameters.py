"""Every parameter of a chat completion with every kind of provider: what arrives is what the table of fates says."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fakes.llm_stub import Call, Turn, run_llm_stub
from pallas_worker.agent.parameters.fates import FAMILIES, HINTS, NAMES, Family
from support.worker.conversation.llm import KEY
from support.worker.process import run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fakes.llm_stub import Asked, LlmStub

AGENTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


def look(where: str = "") -> str:
    '''Look somewhere.'''
    return "a thing"


def ask(what: str = "") -> str:
    '''Ask something.'''
    return "an answer"


@fast.agent(name="demo", instruction="You look. It is {{currentDate}}.", function_tools=[look, ask], skills=[])
async def demo(): ...
"""

MODELS = {
    "chat": "openai.gpt-4.1",
    "chat-reasoning": "openai.o3",
    "compatible": "generic.some-model",
    "responses": "responses.gpt-4.1",
    "responses-reasoning": "responses.gpt-5",
    "anthropic": "claude-haiku-4-5?reasoning=off",
    "anthropic-thinking": "claude-opus-4-7",
    "fast-agent": "passthrough",
}
"""Of each family that stand-ins speak for."""

VALUES: Mapping[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.75,
    "top_k": 7,
    "min_p": 0.125,
    "repetition_penalty": 1.5,
    "presence_penalty": -0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"50": -3},
    "seed": 42,
    "stop": ["<end>"],
    "max_tokens": 77,
    "reasoning_effort": "low",
    "service_tier": "flex",
    "tool_choice": "required",
    "named tool_choice": {"type": "function", "function": {"name": "look"}},
    "parallel_tool_calls": False,
    "extra": {"metadata": {"user_id": "u1"}},
}


class Rig:
    """A worker and the stand-in of all its providers."""

    def __init__(self, origin: str, stub: LlmStub) -> None:
        self.origin = origin
        self.stub = stub

    def ask(self, model: str | None = None, headers: Mapping[str, str] = {}, **fields: Any) -> httpx.Response:
        """The answer to one chat completion; a model stands for the agent's own."""
        body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}], **fields}
        if model is not None:
            body["model_override"] = model
        return httpx.post(f"{self.origin}/v1/chat/completions", json=body, headers=dict(headers), timeout=60)

    def sent(self, model: str | None = None, **fields: Any) -> tuple[httpx.Response, list[Asked]]:
        """The answer, and what the provider was asked meanwhile."""
        before = len(self.stub.asked)
        return self.ask(model, **fields), self.stub.asked[before:]


@contextmanager
def rig(
    directory: Path, *, agents: str = AGENTS, model: str = "openai.gpt-4.1", overrides: bool = True
) -> Iterator[Rig]:
    """A worker of `agents` whose default model is `model`."""
    with run_llm_stub() as stub:
        openai, anthropic = stub.openai_url, stub.anthropic_url
        config = f"default_model: {model}\nllm_retries: 0\n" + "".join(
            f"{section}: {{api_key: {KEY}, base_url: '{url}'}}\n"
            for section, url in {
                "openai": openai,
                "responses": openai,
                "generic": openai,
                "anthropic": anthropic,
            }.items()
        )
        folder = project(directory, agents=agents, config=config)
        changes: dict[str, Any] = {"models": tuple(MODELS.values()), "overrides": overrides, "key": "the-key"}
        with run_worker(folder, **changes) as worker:
            yield Rig(worker.origin, stub)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """For tests that leave nothing behind."""
    with rig(tmp_path_factory.mktemp("parameters")) as running:
        yield running


def at(body: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path of a request's body, or None."""
    found: Any = body
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def named(answer: httpx.Response) -> list[str]:
    """What the answer says was not taken."""
    header = answer.headers.get("pallas-ignored", "")
    return [part.strip() for part in header.split(",") if part.strip()]


def seen(
    family: Family, name: str, answer: httpx.Response, asked: list[Asked], without: Mapping[str, Any]
) -> str:
    """What has become of one parameter, by the answer and by what has reached the provider."""
    field = name.removeprefix("named ")
    if answer.status_code == 400:
        assert answer.json()["error"]["param"] == field, answer.text
        assert not asked
        return "refused"
    assert answer.status_code == 200, answer.text
    if field in named(answer):
        assert asked[0].body.keys() == without.keys(), "named, and sent all the same"
        return "ignored"
    if family.fate("extra").how == "taken":
        return "taken"
    wires = family.fate(name).wire.split(" or ") if name != "extra" else ["metadata"]
    values = [(at(asked[0].body, wire), at(without, wire)) for wire in wires]
    return "arrives" if any(now is not None and now != before for now, before in values) else "silence"


def requests(family: Family) -> Iterator[tuple[str, ...]]:
    """The parameters of each request: hints that are left out, hints that arrive, and the others one by one."""
    hints = [name for name in HINTS if name != "reasoning_effort"]  # which decides about others
    yield tuple(name for name in hints if family.fate(name).how == "ignored")
    yield tuple(name for name in hints if family.fate(name).how != "ignored")
    yield from ((name,) for name in NAMES if name not in hints)


@pytest.mark.parametrize("key", MODELS)
def test_what_becomes_of_each_parameter_is_what_the_table_says(shared: Rig, key: str) -> None:
    family, model = FAMILIES[key], MODELS[key]
    before: dict[str, Any] = {}
    if key != "fast-agent":
        before = dict(shared.sent(model)[1][0].body)
    said, found = {}, {}
    for together in requests(family):
        answer, asked = shared.sent(model, **{name.removeprefix("named "): VALUES[name] for name in together})
        for name in together:
            how = family.fate(name).how
            said[name] = how if how in ("taken", "ignored", "refused") else "arrives"
            found[name] = seen(family, name, answer, asked, before)
    assert found == said


def test_the_table_has_every_family_that_a_stand_in_speaks_for() -> None:
    assert {key for key, family in FAMILIES.items() if family.tried} == set(MODELS)


@pytest.mark.parametrize("key", [key for key in MODELS if FAMILIES[key].fate("tool_choice").how == "tools"])
@pytest.mark.parametrize("choice", ["tool_choice", "named tool_choice"])
def test_a_model_has_to_call_a_tool_once_and_then_may_answer(shared: Rig, key: str, choice: str) -> None:
    shared.stub.script(Turn(calls=(Call("look"),)), Turn(text="done"))
    answer, asked = shared.sent(MODELS[key], tool_choice=VALUES[choice], parallel_tool_calls=False)
    assert answer.json()["choices"][0]["message"]["content"] == "done"
    first, second = (one.body.get("tool_choice") for one in asked)
    assert "look" in str(first) if choice.startswith("named") else first in ("required", first)
    if isinstance(first, dict) and first["type"] in ("any", "tool"):
        assert first["disable_parallel_tool_use"] is True
        assert second == {"type": "auto", "disable_parallel_tool_use": True}
    else:
        assert first is not None
        assert second is None
        assert [one.body["parallel_tool_calls"] for one in asked] == [False, False]


def test_a_value_that_a_model_lacks_is_moved_and_named_with_what_was_sent(shared: Rig) -> None:
    for model, fields, sent in (
        ("openai.gpt-4.1", {"max_tokens": 9_000_000}, {"max_tokens": 32768}),
        ("responses.gpt-4.1", {"max_tokens": 3}, {"max_tokens": 16}),
        ("claude-haiku-4-5?reasoning=off", {"temperature": 1.5}, {"temperature": 1}),
    ):
        answer, asked = shared.sent(model, **fields)
        ((name, value),) = sent.items()
        assert named(answer) == [f"{name}={value}"]
        assert asked[0].body[FAMILIES[_family(model)].fate(name).wire] == value


def _family(model: str) -> str:
    return next(key for key, listed in MODELS.items() if listed == model)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"tool_choice": {"type": "function", "function": {"name": "no_tool"}}},
            "the agent has no tool 'no_tool'",
        ),
        ({"model_override": "openai.gpt-3"}, "it lists openai.gpt-4.1, openai.o3"),
        ({"model_override": "openai.o3", "reasoning_effort": "max"}, "it takes low, medium, high"),
        ({"extra": {"extra_headers": {"X-Smuggled": "1"}}}, "extra.extra_headers: is no field"),
        ({"temperature": 3}, "temperature: must be from 0 to 2"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_the_model_is_asked(
    shared: Rig, fields: dict[str, Any], complaint: str
) -> None:
    answer, asked = shared.sent(**fields)
    assert (answer.status_code, asked) == (400, [])
    assert complaint in answer.json()["error"]["message"]


def test_extra_reaches_the_body_and_no_header(shared: Rig) -> None:
    for model in MODELS.values():
        if model == "passthrough":
            continue
        shared.ask(model)
        plain = [request for request in shared.stub.requests if request.method == "POST"][-1]
        extra = {"x_knob": {"headers": {"X-Smuggled": "1"}, "extra_headers": {"X-Smuggled": "1"}}}
        _, asked = shared.sent(model, extra=extra)
        knobbed = [request for request in shared.stub.requests if request.method == "POST"][-1]
        assert asked[0].body["x_knob"] == extra["x_knob"]
        assert knobbed.path == plain.path
        assert knobbed.headers.keys() == plain.headers.keys()


def test_overrides_are_for_those_who_have_the_key(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "extra": {"x_knob": 1},
        "system_override": "You are a pirate.",
        "model_override": "openai.o3",
    }
    with rig(tmp_path, overrides=False) as running:
        for name, value in fields.items():
            without = running.ask(**{name: value})
            assert (without.status_code, without.json()["error"]["param"]) == (403, name)
            assert running.ask(headers={"Pallas-Key": "another"}, **{name: value}).status_code == 403
            assert not running.stub.asked
        for name, value in fields.items():
            assert running.ask(headers={"Pallas-Key": "the-key"}, **{name: value}).status_code == 200
        assert len(running.stub.asked) == len(fields)


def prompt(asked: Asked) -> str:
    """The system prompt of a chat completion."""
    return "\n".join(
        row["content"] for row in asked.body["messages"] if row["role"] in ("system", "developer")
    )


def test_a_system_prompt_of_a_call_is_text_and_leaves_no_trace(shared: Rig) -> None:
    _, (before,) = shared.sent()
    _, (appended,) = shared.sent(system_append="Be brief. {{currentDate}} {{file:/etc/passwd}}")
    _, (replaced,) = shared.sent(system_override="You are {{agentName}}.", system_append="Be brief.")
    _, (after,) = shared.sent()
    assert prompt(before).startswith("You look. It is ")
    assert "{{" not in prompt(before)
    assert prompt(appended) == f"{prompt(before)}\n\nBe brief. {{{{currentDate}}}} {{{{file:/etc/passwd}}}}"
    assert prompt(replaced) == "You are {{agentName}}.\n\nBe brief."
    assert prompt(after) == prompt(before)


def test_parameters_of_a_call_leave_no_trace(shared: Rig) -> None:
    _, (before,) = shared.sent()
    shared.sent(temperature=0.5, seed=1, extra={"x_knob": 1}, tool_choice="none")
    for _ in range(2):
        _, (after,) = shared.sent()
        assert after.body == before.body


DEFAULTS = """
from fast_agent import FastAgent
from fast_agent.types import RequestParams

fast = FastAgent("tests")
params = RequestParams(
    temperature=0.1,
    stop_sequences=["."],
    top_k=4,
    metadata={"seed": 5, "extra_body": {"min_p": 0.5, "other": 1}},
)


@fast.agent(name="demo", instruction="You repeat.", request_params=params, skills=[])
async def demo(): ...
"""


def test_null_takes_back_what_the_definition_says(tmp_path: Path) -> None:
    with rig(tmp_path, agents=DEFAULTS, model="generic.some-model") as running:
        _, (plain,) = running.sent()
        _, (cleared,) = running.sent(temperature=None, stop=None, top_k=None, seed=None, min_p=None)
        _, (changed,) = running.sent(temperature=0.9, top_k=9)
    names = ("temperature", "stop", "top_k", "seed", "min_p", "other")
    assert [plain.body.get(name) for name in names] == [0.1, ["."], 4, 5, 0.5, 1]
    assert [cleared.body.get(name) for name in names] == [None, None, None, None, None, 1]
    assert [changed.body.get(name) for name in names] == [0.9, ["."], 9, 5, 0.5, 1]


PARTS = """
from fast_agent import FastAgent

fast = FastAgent("tests")


@fast.agent(name="first", instruction="FIRST", skills=[])
@fast.agent(name="second", instruction="SECOND", model="claude-haiku-4-5?reasoning=off", skills=[])
{demo}
async def demo(): ...
"""


@pytest.mark.parametrize(
    ("demo", "asked_so", "asked_as_defined"),
    [
        ('@fast.chain(name="demo", sequence=["first", "second"])', {"SECOND"}, {"FIRST"}),
        (
            '@fast.chain(name="demo", sequence=["first", "second"], cumulative=True)',
            {"FIRST", "SECOND"},
            set(),
        ),
        ('@fast.parallel(name="demo", fan_out=["first", "second"])', {"FIRST", "SECOND"}, set()),
        ('@fast.parallel(name="demo", fan_out=["first"], fan_in="second")', {"SECOND"}, {"FIRST"}),
        ('@fast.router(name="demo", agents=["first"])', {"FIRST"}, set()),
        ('@fast.maker(name="demo", worker="first", k=1)', {"FIRST"}, set()),
        ('@fast.agent(name="demo", instruction="DEMO", agents=["first"], skills=[])', {"DEMO"}, set()),
    ],
)
def test_parameters_reach_the_agents_whose_words_are_the_answer(
    tmp_path: Path, demo: str, asked_so: set[str], asked_as_defined: set[str]
) -> None:
    with rig(tmp_path, agents=PARTS.format(demo=demo)) as running:
        answer, asked = running.sent(temperature=0.25, seed=3, system_append="APPENDED")
    assert answer.status_code == 200, answer.text
    by_agent = {
        next(name for name in ("DEMO", "FIRST", "SECOND") if name in str(one.body)): one for one in asked
    }
    assert by_agent.keys() == asked_so | asked_as_defined
    for name, one in by_agent.items():
        assert (one.body.get("temperature") == 0.25) == (name in asked_so)
        assert ("APPENDED" in str(one.body)) == (name in asked_so)
    assert named(answer) == (["seed"] if "SECOND" in asked_so else [])
