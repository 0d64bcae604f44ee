"""Every parameter of the reference's table, said over REST: what of it comes to a provider, of OpenAI's kind and of
Anthropic's; as the agent's default, and cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fakes.llm_stub import Turn
from support.gateway.http.deployed import resource, run_deployed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakes.llm_stub import Asked
    from support.gateway.http.deployed import Deployed

NAMED = "named"
"""What becomes of a hint that the provider lacks: it is left out, and named in `Pallas-Ignored`."""

ADD = {"type": "function", "function": {"name": "tools__add"}}
SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}
ANSWER = '{"sum": 5}'

type Body = Mapping[str, Any]


class Case(NamedTuple):
    """One value of a parameter, and what it adds to the body of the provider's request."""

    name: str
    value: Any
    openai: Body | str
    anthropic: Body | str


def same(name: str, value: Any) -> Case:
    """One that both take as it is."""
    return Case(name, value, {name: value}, {name: value})


CASES = [
    same("temperature", 0.7),
    same("temperature", 0),
    same("top_p", 0.5),
    Case("top_k", 7, NAMED, {"top_k": 7}),
    same("max_tokens", 100),
    Case("stop", "a", {"stop": ["a"]}, {"stop_sequences": ["a"]}),
    Case("stop", list("abcd"), {"stop": list("abcd")}, {"stop_sequences": list("abcd")}),
    Case("presence_penalty", 0.5, {"presence_penalty": 0.5}, NAMED),
    Case("frequency_penalty", -0.5, {"frequency_penalty": -0.5}, NAMED),
    Case("seed", 42, {"seed": 42}, NAMED),
    Case("response_format", {"type": "text"}, {}, {}),
    Case(
        "response_format",
        {"type": "json_schema", "json_schema": {"name": "sum", "schema": SCHEMA}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "structured_output", "strict": True, "schema": SCHEMA},
            }
        },
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    Case("tool_choice", "auto", {}, {}),
    Case("tool_choice", "none", {"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    Case("tool_choice", "required", {"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    Case("tool_choice", ADD, {"tool_choice": ADD}, {"tool_choice": {"type": "tool", "name": "tools__add"}}),
    Case("extra", {"metadata": {"user_id": "u1"}}, *[{"metadata": {"user_id": "u1"}}] * 2),
    Case("extra", {"repetition_penalty": 1.1}, *[{"repetition_penalty": 1.1}] * 2),
]

DEFAULTS: dict[str, Case] = {
    each.name: each
    for each in (
        same("temperature", 0.3),
        same("top_p", 0.4),
        Case("top_k", 9, NAMED, {"top_k": 9}),
        same("max_tokens", 55),
        Case("stop", ["z"], {"stop": ["z"]}, {"stop_sequences": ["z"]}),
        Case("presence_penalty", 0.1, {"presence_penalty": 0.1}, NAMED),
        Case("frequency_penalty", 0.1, {"frequency_penalty": 0.1}, NAMED),
        Case("seed", 3, {"seed": 3}, NAMED),
        Case("tool_choice", "required", {"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        Case("extra", {"metadata": {"user_id": "d"}}, *[{"metadata": {"user_id": "d"}}] * 2),
    )
}
"""All parameters of the table that may be defaults."""

OUT_OF_RANGE: list[tuple[str, Any, str]] = [
    ("temperature", 2.5, "temperature"),
    ("temperature", -0.1, "temperature"),
    ("temperature", "hot", "temperature"),
    ("top_p", 1.5, "top_p"),
    ("top_k", -2, "top_k"),
    ("top_k", 1.5, "top_k"),
    ("max_tokens", 0, "max_tokens"),
    ("stop", list("abcde"), "stop"),
    ("stop", ["a", 7], "stop[1]"),
    ("stop", [""], "stop[0]"),
    ("presence_penalty", 2.5, "presence_penalty"),
    ("frequency_penalty", -2.5, "frequency_penalty"),
    ("seed", 2**63, "seed"),
    ("response_format", {"type": "yaml"}, "response_format.type"),
    ("response_format", {"type": "json_schema"}, "response_format.json_schema"),
    ("tool_choice", "maybe", "tool_choice"),
    ("tool_choice", {"type": "function"}, "tool_choice"),
    ("tool_choice", {"type": "function", "function": {"name": "no__tool"}}, "tool_choice"),
    ("tools_allowlist", "tools__add", "tools_allowlist"),
    ("tools_allowlist", ["no__tool"], "tools_allowlist"),
    ("systemOverride", 7, "systemOverride"),
    ("systemAppend", 7, "systemAppend"),
    ("messages", "hello", "messages"),
    ("messages", [], "messages"),
    ("messages", [{"role": "robot", "content": "x"}], "messages[0].role"),
    ("extra", 7, "extra"),
    ("extra", {"temperature": 1}, "extra.temperature"),
    ("extra", {"extra_headers": {"x": "y"}}, "extra.extra_headers"),
    ("thread_id", "t", "thread_id"),
]
"""What is said, and which field the answer names."""

PROVIDERS = ("openai", "anthropic")


def answer(_: Asked) -> Turn:
    return Turn(text=ANSWER)


class Scene:
    """For each provider an agent without defaults, and one with all of them."""

    def __init__(self, deployed: Deployed) -> None:
        self.deployed = deployed

    def sent(self, agent: str, **said: Any) -> tuple[Any, list[str]]:
        """The body of the one request that the provider gets, and what the answer says was not taken."""
        before = len(self.deployed.llm.asked)
        done = self.deployed.ada.rest("POST", f"/agents/{agent}/chat", json={"message": "hello", **said})
        assert done.status_code == 200, done.text
        [asked] = self.deployed.llm.asked[before:]
        return asked.body, [each for each in done.headers.get("pallas-ignored", "").split(", ") if each]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with run_deployed(tmp_path_factory.mktemp("parameters"), answer=answer) as deployed:
        prompts = [{"name": "tone", "description": "How to answer", "text": "Be kind."}]
        project = resource("project", "sums", {"servers": ["tools"], "prompts": prompts})
        deployed.ask("PUT", "/resources/project/sums", 201, json=project)
        defaults = {name: case.value for name, case in DEFAULTS.items()}
        # Of Anthropic's models, those that think take no hints; this one can do without.
        for name, llm, own in (("openai", "stub", {}), ("anthropic", "claude", {"reasoning_effort": "none"})):
            spec = {"llm": llm, "project": "sums", "systemPrompt": "You add."}
            deployed.ask("POST", "/agents", 201, json={"name": name, "defaultParams": own, **spec})
            full = {"name": f"{name}-full", "defaultParams": {**defaults, **own}, **spec}
            deployed.ask("POST", "/agents", 201, json=full)
        yield Scene(deployed)


def system_of(body: Body) -> str:
    """What the model is told first."""
    if "system" in body:
        return "".join(block["text"] for block in body["system"])
    first = body["messages"][0]
    assert first["role"] == "system"
    return str(first["content"])


def spoken(body: Body) -> list[tuple[str, str]]:
    """The conversation: who said what."""
    return [
        (each["role"], content if isinstance(content := each["content"], str) else content[0]["text"])
        for each in body["messages"]
        if each["role"] != "system"
    ]


def of(case: Case, provider: str) -> Body | str:
    found: Body | str = getattr(case, provider)
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {str(case.value)[:40]}")
def test_a_parameter_comes_to_the_provider_and_nothing_else_changes(
    scene: Scene, case: Case, provider: str
) -> None:
    bare, ignored = scene.sent(provider)
    assert ignored == []
    body, ignored = scene.sent(provider, **{case.name: case.value})
    expected = of(case, provider)
    if isinstance(expected, str):
        assert (body, ignored) == (bare, [case.name])
    else:
        assert (body, ignored) == ({**bare, **expected}, [])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_limit_beyond_the_models_is_clamped_and_named(scene: Scene, provider: str) -> None:
    body, ignored = scene.sent(provider, max_tokens=9_999_999)
    if provider == "anthropic":
        assert (body["max_tokens"], ignored) == (64_000, ["max_tokens=64000"])
    else:
        assert (body["max_tokens"], ignored) == (9_999_999, []), "fast-agent does not know the stand-in's"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_object_is_asked_for_in_words_where_the_provider_has_none_for_it(
    scene: Scene, provider: str
) -> None:
    bare, _ = scene.sent(provider)
    body, ignored = scene.sent(provider, response_format={"type": "json_object"})
    assert ignored == []
    assert "JSON object" in system_of(body).removeprefix(system_of(bare))
    assert spoken(body) == spoken(bare)
    assert body.get("response_format") == ({"type": "json_object"} if provider == "openai" else None)
    changed = {key for key in bare.keys() | body.keys() if body.get(key) != bare.get(key)}
    assert changed == ({"messages", "response_format"} if provider == "openai" else {"system"})


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", [None, *DEFAULTS])
def test_null_clears_one_default_and_no_other(scene: Scene, name: str | None, provider: str) -> None:
    bare, _ = scene.sent(provider)
    body, ignored = scene.sent(f"{provider}-full", **({} if name is None else {name: None}))
    others = [of(case, provider) for each, case in DEFAULTS.items() if each != name]
    expected = dict(bare)
    for each in others:
        expected |= each if not isinstance(each, str) else {}
    assert body == expected
    assert sorted(ignored) == sorted(
        each for each, case in DEFAULTS.items() if each != name and of(case, provider) == NAMED
    )


@pytest.mark.parametrize("provider", PROVIDERS)
def test_null_clears_all_defaults_at_once_and_a_value_wins(scene: Scene, provider: str) -> None:
    bare, _ = scene.sent(provider)
    assert scene.sent(f"{provider}-full", **dict.fromkeys(DEFAULTS)) == (bare, [])
    full, _ = scene.sent(f"{provider}-full")
    body, _ = scene.sent(f"{provider}-full", temperature=0.9, extra={"user_note": "x"})
    assert body == {**full, "temperature": 0.9, "user_note": "x"}, "`extra` is merged key by key"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_system_block_is_replaced_and_appended_to(scene: Scene, provider: str) -> None:
    def told(**said: Any) -> list[str]:
        return [part for part in system_of(scene.sent(provider, **said)[0]).splitlines() if part]

    assert told() == ["You add.", "Be kind."]
    assert told(systemAppend="Be brief.") == ["You add.", "Be kind.", "Be brief."]
    assert told(systemOverride="You rhyme.") == ["You rhyme."]
    assert told(systemOverride="You rhyme.", systemAppend="Be brief.") == ["You rhyme.", "Be brief."]
    assert told(systemOverride=None, systemAppend=None) == ["You add.", "Be kind."]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_tools_of_a_turn_are_restricted(scene: Scene, provider: str) -> None:
    def told(**said: Any) -> list[str]:
        tools = scene.sent(provider, **said)[0].get("tools") or []
        return [each["function"]["name"] if provider == "openai" else each["name"] for each in tools]

    everything = told()
    assert {"tools__add", "tools__echo"} < set(everything)
    assert told(tools_allowlist=["tools__add"]) == ["tools__add"]
    assert told(tools_allowlist=["tools__*"]) == told(tools_allowlist=None) == everything
    assert told(tools_allowlist=[]) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_messages_stand_in_place_of_the_threads(scene: Scene, provider: str) -> None:
    thread = scene.deployed.chat(agent=provider, message="first")["threadId"]
    conversation = [("user", "one"), ("assistant", "1"), ("user", "two")]
    messages = [{"role": role, "content": content} for role, content in conversation]
    body, _ = scene.sent(provider, message=None, messages=messages, threadId=thread)
    assert spoken(body) == conversation, "what is kept of the thread is not sent"
    body, _ = scene.sent(provider, message="ignored", messages=messages)
    assert spoken(body) == conversation, "`message` is ignored"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("name", "value", "field"), OUT_OF_RANGE)
def test_a_value_out_of_its_range_is_refused_with_its_field(
    scene: Scene, name: str, value: Any, field: str, stream: bool
) -> None:
    before = len(scene.deployed.llm.asked)
    body = {"message": "hello", "stream": stream, name: value}
    if name == "messages":
        del body["message"]
    error = scene.deployed.chat(400, agent="openai", **body)["error"]
    assert (error["field"], error["type"] in ("invalid", "invalid_value")) == (field, True), error
    assert field.split("[")[0].split(".")[0] in error["message"]
    assert len(scene.deployed.llm.asked) == before, "the provider is not asked"
