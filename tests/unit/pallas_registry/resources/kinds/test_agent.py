"""The spec of an agent."""

from __future__ import annotations

from typing import Any

import pytest

from support.data.resource_texts import refusals, resource, spec_of


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ({}, {}),
        ({"description": " one line \n"}, {"description": "one line"}),
        ({"model": "openai.gpt-4.1"}, {"model": "openai.gpt-4.1"}),
        ({"llm": {"name": "gpt-4.1"}, "models": [{"name": "b"}, "c"]}, {"llm": "gpt-4.1", "models": ["b", "c"]}),
        ({"project": {"name": "p"}, "servers": ["s", {"name": "t"}]}, {"project": "p", "servers": ["s", "t"]}),
        ({"tools": []}, {"tools": []}),
        ({"tools": ["search__*", "a?__b", "search__*"]}, {"tools": ["search__*", "a?__b"]}),
        ({"maxIterations": 12}, {}),
        ({"maxIterations": 1}, {"maxIterations": 1}),
        ({"outputSchema": {"type": "object"}}, {"outputSchema": {"type": "object"}}),
        ({"proxyModelName": "other/model", "extras": {"lora": [1, 1.5, None, {"a": "b"}]}},
         {"proxyModelName": "other/model", "extras": {"lora": [1, 1.5, None, {"a": "b"}]}}),
        ({"run": {}}, {}),
        ({"run": {"start": "always", "idle_timeout": 300.0, "env": {"A": 1, "B": True}, "depends_on": ["x-y"]}},
         {"run": {"depends_on": ["x-y"], "env": {"A": "1", "B": "true"}, "start": "always", "idle_timeout": 300}}),
        ({"run": {"memory_limit": "1.5GiB"}}, {"run": {"memory_limit": "1536MiB"}}),
        ({"run": {"memory_limit": 1024**3}}, {"run": {"memory_limit": "1GiB"}}),
        ({"run": {"memory_limit": 300_000_001}}, {"run": {"memory_limit": 300_000_001}}),
        ({"run": {"memory_limit": "none"}}, {"run": {"memory_limit": "none"}}),
        ({"run": {"overrides": False, "max_queue": 0}}, {"run": {"max_queue": 0, "overrides": False}}),
        ({"run": {"port": 8201, "title": "T", "icon": "/i.svg", "python": ".venv/bin/python"}},
         {"run": {"port": 8201, "title": "T", "icon": "/i.svg", "python": ".venv/bin/python"}}),
        ({"defaultParams": {"stop": "x", "temperature": 1.0, "max_completion_tokens": 5}},
         {"defaultParams": {"temperature": 1, "max_tokens": 5, "stop": ["x"]}}),
        ({"defaultParams": {"tool_choice": {"type": "function", "function": {"name": "a__b"}}}},
         {"defaultParams": {"tool_choice": {"type": "function", "function": {"name": "a__b"}}}}),
        ({"defaultParams": {"extra": {"metadata": {"user_id": "u"}}, "seed": 1}},
         {"defaultParams": {"seed": 1, "extra": {"metadata": {"user_id": "u"}}}}),
    ],
    ids=range(22),
)  # fmt: skip
def test_it_is_read_in_its_canonical_form(spec: dict[str, Any], canonical: dict[str, Any]) -> None:
    found = resource("agent", "a", spec)
    assert found.spec == canonical
    assert list(found.spec) == list(canonical)
    assert spec_of("agent", canonical) == canonical


LONG = "x" * (256 * 1024 + 1)


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"descripton": "x"}, "spec.descripton", "is not a known key"),
        ({"description": ""}, "spec.description", "is empty"),
        ({"description": "x" * 101}, "spec.description", "has 101 characters"),
        ({"description": "a\nb"}, "spec.description", "has a line break"),
        ({"llm": "a", "model": "b"}, "spec.model", "stands beside `llm`"),
        ({"llm": None}, "spec.llm", "is empty"),
        ({"llm": {}}, "spec.llm.name", "is missing"),
        ({"llm": {"name": "a", "key": "b"}}, "spec.llm.key", "is not a known key"),
        ({"llm": ["a"]}, "spec.llm", "is a list, not text"),
        ({"llm": "a b"}, "spec.llm", "'a b' is no name"),
        ({"model": "a b"}, "spec.model", "'a b' is not a model"),
        ({"models": "a"}, "spec.models", "is text, not a list"),
        ({"models": ["a", "a"]}, "spec.models[1]", "names 'a' twice"),
        ({"models": [1]}, "spec.models[0]", "is a whole number, not text"),
        ({"models": ["m"] * 201}, "spec.models", "has 201 entries"),
        ({"servers": ["agent-x"]}, "spec.servers[0]", "'agent-x' is reserved"),
        ({"servers": [{"name": "a", "url": "b"}]}, "spec.servers[0].url", "is not a known key"),
        ({"project": "a.b"}, "spec.project", "'a.b' has a dot"),
        ({"systemPrompt": "  "}, "spec.systemPrompt", "is empty"),
        ({"systemPrompt": LONG}, "spec.systemPrompt", "has 262145 characters"),
        ({"systemPrompt": ["a"]}, "spec.systemPrompt", "is a list, not text"),
        ({"tools": "*"}, "spec.tools", "is text, not a list"),
        ({"tools": ["a b"]}, "spec.tools[0]", "'a b' is no pattern of tools"),
        ({"tools": [""]}, "spec.tools[0]", "'' is no pattern of tools"),
        ({"outputSchema": "schema.json"}, "spec.outputSchema", "is text, not a mapping"),
        ({"outputSchema": {"type": "objct"}}, "spec.outputSchema.type", '"objct" is no type'),
        ({"outputSchema": {"$ref": "http://x/y"}}, "spec.outputSchema.$ref", "'http://x/y' leads out of the schema"),
        ({"maxIterations": 0}, "spec.maxIterations", "0 is out of range"),
        ({"maxIterations": 1.5}, "spec.maxIterations", "'1.5' is not a whole number"),
        ({"proxyModelName": ""}, "spec.proxyModelName", "'' is no name"),
        ({"extras": [1]}, "spec.extras", "is a list, not a mapping"),
        ({"run": [1]}, "spec.run", "is a list, not a mapping"),
        ({"run": {"module": "a.b"}}, "spec.run.module", "is not a known key"),
        ({"run": {"models": ["a"]}}, "spec.run.models", "is not a known key"),
        ({"run": {"port": 0}}, "spec.run.port", "0 is out of range"),
        ({"run": {"depends_on": ["x"]}}, "spec.run.depends_on", "names the agent itself"),
        ({"run": {"depends_on": ["y", "y"]}}, "spec.run.depends_on", "names 'y' twice"),
        ({"run": {"depends_on": ["a b"]}}, "spec.run.depends_on", "'a b' cannot be the name of a tool"),
        ({"run": {"start": "never"}}, "spec.run.start", "'never' is not a known value"),
        ({"run": {"idle_timeout": 0}}, "spec.run.idle_timeout", "'0' is not a time"),
        ({"run": {"memory_limit": "1MiB"}}, "spec.run.memory_limit", "'1MiB' is out of range"),
        ({"run": {"env": {"A B": "x"}}}, "spec.run.env.A B", "cannot be the name of a variable"),
        ({"run": {"env": {"A": "${secret:k/A}"}}}, "spec.run.env.A", "refers to a secret"),
        ({"run": {"title": ""}}, "spec.run.title", "is empty"),
        ({"run": {"overrides": "maybe"}}, "spec.run.overrides", "is text, not a truth value"),
        ({"defaultParams": {"temperature": 3}}, "spec.defaultParams.temperature", "must be from 0 to 2, not 3"),
        ({"defaultParams": {"temperature": None}}, "spec.defaultParams.temperature", "is empty"),
        ({"defaultParams": {"tempratur": 1}}, "spec.defaultParams.tempratur", "is no default parameter"),
        ({"defaultParams": {"messages": []}}, "spec.defaultParams.messages", "is no default parameter"),
        ({"defaultParams": {"stop": ["a"] * 5}}, "spec.defaultParams.stop", "must be 1 to 4 strings, not 5"),
        ({"defaultParams": {"stop": ["a", 1]}}, "spec.defaultParams.stop[1]", "must be a string"),
        ({"defaultParams": {"max_tokens": 1, "max_completion_tokens": 2}},
         "spec.defaultParams.max_completion_tokens", "differs from max_tokens"),
        ({"defaultParams": {"extra": {"model": "x"}}}, "spec.defaultParams.extra.model", "is the agent's"),
        ({"defaultParams": 5}, "spec.defaultParams", "is a whole number, not a mapping"),
    ],
    ids=range(54),
)  # fmt: skip
def test_what_is_refused(spec: dict[str, Any], field: str, message: str) -> None:
    (found, *others) = refusals("agent", spec)
    assert not others
    assert found[0] == field
    assert found[1].startswith(message)
    assert found[2]


def test_all_parameters_are_told_in_one_run() -> None:
    found = refusals("agent", {"defaultParams": {"temperature": 3, "top_p": -1, "nope": 1, "seed": "x"}})
    assert sorted(field for field, _, _ in found) == [
        f"spec.defaultParams.{name}" for name in ("nope", "seed", "temperature", "top_p")
    ]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [("response_format", "outputSchema"), ("tools_allowlist", "`tools:`"), ("systemAppend", "systemPrompt"),
     ("top_q", "`top_p`")],
)  # fmt: skip
def test_a_parameter_that_is_none_is_told_where_it_belongs(key: str, remedy: str) -> None:
    ((_, _, said),) = refusals("agent", {"defaultParams": {key: 1}})
    assert remedy in said
