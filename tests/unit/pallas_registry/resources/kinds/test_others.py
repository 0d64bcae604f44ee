"""The specs of llms, secrets, servers and projects."""

from __future__ import annotations

from typing import Any

import pytest
from fast_agent.llm.provider_types import Provider

from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.kinds.llm import PROVIDERS
from support.data.resource_texts import document, refusals, resource, spec_of, text_of

LLM = {"type": "openai", "model": "m"}


@pytest.mark.parametrize(
    ("kind", "spec", "canonical"),
    [
        ("llm", {**LLM, "apiKeyRef": {"name": "k", "key": "A"}}, {**LLM, "apiKeyRef": "k/A"}),
        ("llm", {**LLM, "url": "http://h.svc:4000/v1", "description": "d" * 300, "extras": {}},
         {"description": "d" * 300, **LLM, "url": "http://h.svc:4000/v1"}),
        ("secret", {"data": {"B": "x\n", "A.b-c_1": " "}}, {"data": {"A.b-c_1": " ", "B": "x\n"}}),
        ("secret", {"data": {"A": {"digest": "hmac-sha256:0123456789abcdef"}}},
         {"data": {"A": {"digest": "hmac-sha256:0123456789abcdef"}}}),
        ("server", {"url": "https://h/mcp", "transport": "http"}, {"url": "https://h/mcp"}),
        ("server", {"url": "https://h/mcp", "transport": "sse", "forwardInboundAuth": False},
         {"transport": "sse", "url": "https://h/mcp"}),
        ("server", {"url": "https://${secret:k/H}/mcp", "headers": {"X-A": 1}, "forwardInboundAuth": True},
         {"url": "https://${secret:k/H}/mcp", "headers": {"X-A": "1"}, "forwardInboundAuth": True}),
        ("server", {"transport": "stdio", "command": "uvx", "args": ["a", "${secret:k/A}"], "env": {"A": "b"},
                    "cwd": "."},
         {"command": "uvx", "args": ["a", "${secret:k/A}"], "env": {"A": "b"}, "cwd": "."}),
        ("server", {"command": "x", "readTimeoutSeconds": 5}, {"command": "x", "readTimeoutSeconds": 5}),
        ("project", {"servers": [{"name": "s"}], "prompts": [{"name": "p", "text": "t"}]},
         {"servers": ["s"], "prompts": [{"name": "p", "text": "t"}]}),
        ("project", {}, {}),
    ],
    ids=range(11),
)  # fmt: skip
def test_they_are_read_in_their_canonical_form(
    kind: str, spec: dict[str, Any], canonical: dict[str, Any]
) -> None:
    found = resource(kind, "x", spec).spec
    assert found == canonical
    assert list(found) == list(canonical)
    assert spec_of(kind, canonical) == canonical


@pytest.mark.parametrize(
    ("kind", "spec", "field", "message"),
    [
        ("llm", {"model": "m"}, "spec.type", "is missing"),
        ("llm", {"type": "openai"}, "spec.model", "is missing"),
        ("llm", {**LLM, "type": "opnai"}, "spec.type", "'opnai' is not a known value"),
        ("llm", {**LLM, "type": "vllm"}, "spec.type", "`vllm` is not a known value"),
        ("llm", {**LLM, "model": "a b"}, "spec.model", "'a b' is no name"),
        ("llm", {**LLM, "url": "h:4000"}, "spec.url", "'h:4000' is not a web address"),
        ("llm", {**LLM, "url": "http://u:p@h/"}, "spec.url", "has a user name or password"),
        ("llm", {**LLM, "url": "http://[h"}, "spec.url", "'http://[h' is not a URL"),
        ("llm", {**LLM, "url": "http://h:99999/"}, "spec.url", "'http://h:99999/' is not a URL"),
        ("llm", {**LLM, "apiKeyRef": "key"}, "spec.apiKeyRef", "names no value of a secret"),
        ("llm", {**LLM, "apiKeyRef": "a__b/K"}, "spec.apiKeyRef", "names no value of a secret"),
        ("llm", {**LLM, "apiKeyRef": {"name": "k"}}, "spec.apiKeyRef.key", "is missing"),
        ("llm", {**LLM, "apiKeyRef": {"name": "k", "key": "a b"}}, "spec.apiKeyRef.key", "is no name of a value"),
        ("llm", {**LLM, "apiKey": "k"}, "spec.apiKey", "is not a known key"),
        ("secret", {}, "spec.data", "is missing"),
        ("secret", {"data": {}}, "spec.data", "is empty"),
        ("secret", {"data": "x"}, "spec.data", "is text, not a mapping"),
        ("secret", {"data": {"A B": "x"}}, "spec.data.A B", "is no name of a value"),
        ("secret", {"data": {"A": ""}}, "spec.data.A", "is empty"),
        ("secret", {"data": {"A": None}}, "spec.data.A", "is empty"),
        ("secret", {"data": {"A": "x" * 65537}}, "spec.data.A", "has 65537 bytes"),
        ("secret", {"data": {"A": {"digest": "md5:00"}}}, "spec.data.A.digest", "is no digest that Pallas shows"),
        ("secret", {"data": {f"A{n}": "x" for n in range(101)}}, "spec.data", "has 101 values"),
        ("server", {}, "spec.url", "is missing"),
        ("server", {"transport": "stdio"}, "spec.command", "is missing"),
        ("server", {"url": "http://h/", "command": "x"}, "spec.command", "stands beside `url`"),
        ("server", {"url": "http://h/", "transport": "stdio"}, "spec.transport", "is for a command"),
        ("server", {"command": "x", "transport": "sse"}, "spec.transport", "is for a `url`"),
        ("server", {"command": "x", "transport": "tcp"}, "spec.transport", "'tcp' is not a known value"),
        ("server", {"command": "x", "headers": {"A": "b"}}, "spec.headers", "is for a server with `url:`"),
        ("server", {"url": "http://h/", "env": {"A": "b"}}, "spec.env", "is for a server with `command:`"),
        ("server", {"url": "http://h/", "headers": {"A B": "b"}}, "spec.headers.A B", "is no name of a header"),
        ("server", {"url": "http://h/", "headers": {"A": "b\nc"}}, "spec.headers.A", "has a line break"),
        ("server", {"url": "http://h/", "headers": {"A": "${secret:k}"}}, "spec.headers.A", "refers to no value"),
        ("server", {"url": "http://h/", "headers": {"A": "${secret:k/K"}}, "spec.headers.A", "refers to no value"),
        ("server", {"url": "${secret:k/U}"}, "spec.url", "'secret' is not a web address"),
        ("server", {"command": "${secret:k/U}"}, "spec.command", "refers to a secret"),
        ("server", {"command": ["a", "b"]}, "spec.command", "is a list, not text"),
        ("server", {"command": "a", "args": [1]}, "spec.args[0]", "is a whole number, not text"),
        ("server", {"command": "a", "env": {"1A": "b"}}, "spec.env.1A", "cannot be the name of a variable"),
        ("server", {"command": "a", "readTimeoutSeconds": 0}, "spec.readTimeoutSeconds", "0 is out of range"),
        ("project", {"prompts": {}}, "spec.prompts", "is a mapping, not a list"),
        ("project", {"prompts": [{"name": "a"}]}, "spec.prompts[0].text", "is missing"),
        ("project", {"prompts": [{"text": "a"}]}, "spec.prompts[0].name", "is missing"),
        ("project", {"prompts": [{"name": "a", "text": "t", "x": 1}]}, "spec.prompts[0].x", "is not a known key"),
        ("project", {"prompts": [{"name": "a", "text": "t"}] * 2}, "spec.prompts[1].name", "another prompt is called"),
        ("project", {"agents": ["a"]}, "spec.agents", "is not a known key"),
    ],
    ids=range(47),
)  # fmt: skip
def test_what_is_refused(kind: str, spec: dict[str, Any], field: str, message: str) -> None:
    (found, *others) = refusals(kind, spec)
    assert not others, others
    assert found[0] == field
    assert found[1].startswith(message)
    assert found[2]


@pytest.mark.parametrize(
    "value",
    ["4857392", "true", "1e5", "[token-abc]", "{token-abc: x}", "!token-abc x", "{digest: token-abc}", "*token-abc"],
)  # fmt: skip
def test_no_message_quotes_a_secret(value: str) -> None:
    text = f"apiVersion: pallas/v1\nkind: secret\nmetadata: {{name: k}}\nspec:\n  data:\n    A: {value}\n"
    found, problems, _ = read_resources(text.encode(), "f")
    if found:  # YAML 1.1 takes it for a text
        assert found[0].spec == {"data": {"A": value}}
        return
    assert problems
    said = "\n".join(map(str, problems))
    assert "token-abc" not in said
    assert "4857392" not in said


def test_two_secrets_with_the_same_values_in_another_order_are_equal() -> None:
    one, other = {"A": "1", "B": "2"}, {"B": "2", "A": "1"}
    assert text_of(document("secret", "k", {"data": one})) != text_of(
        document("secret", "k", {"data": other})
    )
    assert resource("secret", "k", {"data": one}) == resource("secret", "k", {"data": other})


def test_providers_are_those_of_fast_agent() -> None:
    assert sorted(PROVIDERS) == sorted(provider.value for provider in Provider)
