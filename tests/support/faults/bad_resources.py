"""Resources that are wrong in one place each: good ones, changed by a rule that makes them bad.

Knows the shapes of resources; must not know how they are read.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

type Document = dict[str, Any]

GOOD: dict[str, Document] = {
    "agent": {
        "description": "Answers",
        "llm": "there",
        "models": ["there"],
        "project": "there",
        "systemPrompt": "Answer.",
        "defaultParams": {"temperature": 0.5, "max_tokens": 100, "top_p": 0.9, "seed": 1, "stop": ["a"]},
        "servers": ["there"],
        "tools": ["there__*"],
        "outputSchema": {"type": "object"},
        "maxIterations": 3,
        "extras": {"a": 1},
        "run": {"idle_timeout": 5, "memory_limit": "512MiB", "max_concurrency": 3, "start": "on-demand"},
    },
    "llm": {
        "type": "openai",
        "model": "m",
        "url": "http://127.0.0.1:9/v1",
        "apiKeyRef": "there/KEY",
        "description": "A model",
    },
    "secret": {"data": {"KEY": "value"}},
    "server": {
        "description": "Tools",
        "transport": "http",
        "url": "http://127.0.0.1:9/mcp",
        "headers": {"X-Key": "${secret:there/KEY}"},
        "forwardInboundAuth": False,
        "readTimeoutSeconds": 5,
    },
    "project": {
        "description": "Work",
        "servers": ["there"],
        "prompts": [{"name": "one", "text": "Be brief."}],
    },
}
"""A good spec of each kind; what they refer to is called `there`."""

_NOT_TEXT: tuple[object, ...] = ([], {}, [["x"]], {"x": "y"})
_NOT_A_NUMBER: tuple[object, ...] = ("many", [], {}, True)
_NOT_A_LIST: tuple[object, ...] = ({"x": 1}, [["x"]], [{"x": 1}])
_NOT_A_MAPPING: tuple[object, ...] = ("x", ["x"], 3)
_OF: dict[type, tuple[object, ...]] = {
    str: _NOT_TEXT,
    int: _NOT_A_NUMBER,
    float: _NOT_A_NUMBER,
    bool: ("perhaps", [], 7),
    list: _NOT_A_LIST,
    dict: _NOT_A_MAPPING,
}
"""What no value of a type can be replaced with."""

_FREE = ("extras", "outputSchema")
"""Fields whose inside may be anything of their own kind."""

_WRONG: dict[str, list[tuple[str, object]]] = {
    "agent": [
        ("defaultParams.temperature", 2.5),
        ("defaultParams.temperature", -0.1),
        ("defaultParams.top_p", 1.5),
        ("defaultParams.max_tokens", 0),
        ("defaultParams.stop", ["a", "b", "c", "d", "e"]),
        ("defaultParams.presence_penalty", 9),
        ("defaultParams.tool_choice", "sometimes"),
        ("defaultParams.response_format", {"type": "json_object"}),
        ("defaultParams.system_override", "x"),
        ("llm", "missing"),
        ("llm", {"name": "there", "x": 1}),
        ("project", "missing"),
        ("servers", ["missing"]),
        ("servers", ["there", "missing"]),
        ("models", ["missing"]),
        ("model", "openai.gpt-4.1"),
        ("maxIterations", 0),
        ("maxIterations", 10**9),
        ("run.port", 0),
        ("run.port", 70000),
        ("run.module", "agents.x"),
        ("run.card", "x.md"),
        ("run.start", "sometimes"),
        ("run.idle_timeout", 0),
        ("run.memory_limit", "1KiB"),
        ("run.depends_on", ["missing"]),
        ("run.depends_on", ["bad"]),
        ("run.python", "/nowhere/python"),
        ("run.env", {"A=B": "x"}),
        ("outputSchema", {"$ref": "http://127.0.0.1:9/schema"}),
        ("outputSchema", {"type": "nothing"}),
        ("tools", ["a b"]),
        ("systemPrompt", "x" * 2_000_000),
    ],
    "llm": [
        ("type", "no-such-provider"),
        ("url", "file:///etc/passwd"),
        ("url", "nowhere"),
        ("apiKeyRef", "there"),
        ("apiKeyRef", "there/MISSING"),
        ("apiKeyRef", "missing/KEY"),
        ("model", "a b"),
    ],
    "secret": [
        ("data", {"a b": "x"}),
        ("data", {"K": "x" * 100_000}),
        ("data", {"K": {"digest": "hmac-sha256:" + "0" * 64}}),
        ("data", {"K": {"digest": "x"}}),
    ],
    "server": [
        ("url", "file:///etc/passwd"),
        ("headers", {"X Y": "z"}),
        ("headers", {"X": "a\nb"}),
        ("headers", {"X": "${secret:missing/KEY}"}),
        ("headers", {"X": "${secret:there/MISSING}"}),
        ("command", "echo"),
        ("transport", "pigeon"),
        ("readTimeoutSeconds", 0),
    ],
    "project": [
        ("servers", ["missing"]),
        ("prompts", [{"name": "one"}]),
        ("prompts", [{"name": "one", "text": "a"}, {"name": "one", "text": "b"}]),
        ("prompts", [{"text": "a"}]),
    ],
}
"""Values of the right type that are wrong all the same, by kind and path."""

_NAMES = ("", "a b", "../x", "x__y", "tenant.name", "-x", "X" * 200, "a/b", "ü", "\u202e")


def bad_resources() -> Iterator[tuple[str, str]]:
    """What is wrong in a few words, and the document's text; every resource of them is called `bad`, or is nameless."""
    for what, document in _documents():
        yield what, json.dumps(document)
    extras = '{"x": ' * 5000 + "1" + "}" * 5000
    yield (
        "deep",
        json.dumps(document_of("agent", {**GOOD["agent"], "extras": "HERE"})).replace('"HERE"', extras),
    )
    yield "cut off", json.dumps(document_of("agent", GOOD["agent"]))[:-20]
    yield "nothing but a list", "[1, 2]"
    yield "an anchor of itself", "&a [*a]"


def _documents() -> Iterator[tuple[str, Document]]:
    for kind, spec in GOOD.items():
        for path, value in _leaves(spec, ""):
            for other in _OF[type(value)]:
                yield f"{kind} {path} {other!r}", document_of(kind, _with(spec, path, other))
        for path in ("nonsense", *(f"{key}.nonsense" for key in _mappings(spec) if key not in _FREE)):
            if path.startswith(("data.", "headers.")):
                continue
            yield f"{kind} unknown {path}", document_of(kind, _with(spec, path, "x"))
        for path, value in _WRONG[kind]:
            yield f"{kind} {path} {str(value)[:60]}", document_of(kind, _with(spec, path, value))
        for wrong in (None, "x", [1]):
            yield f"{kind} spec {wrong!r}", {**document_of(kind, {}), "spec": wrong}
    for name in _NAMES:
        yield f"name {name[:20]!r}", {**document_of("agent", GOOD["agent"]), "metadata": {"name": name}}
    good = document_of("agent", GOOD["agent"])
    yield "server agent-", {**document_of("server", GOOD["server"]), "metadata": {"name": "agent-x"}}
    yield "no kind", {key: value for key, value in good.items() if key != "kind"}
    yield "another kind", {**good, "kind": "pod"}
    yield "another version", {**good, "apiVersion": "v2"}
    yield "no metadata", {key: value for key, value in good.items() if key != "metadata"}
    yield "no name", {**good, "metadata": {}}
    yield "unknown at the top", {**good, "nonsense": 1}
    yield "unknown metadata", {**good, "metadata": {"name": "bad", "nonsense": 1}}


def document_of(kind: str, spec: Document, name: str = "bad") -> Document:
    """The whole of a resource."""
    return {"apiVersion": "pallas/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _with(spec: Document, path: str, value: object) -> Document:
    changed = copy.deepcopy(spec)
    *above, last = path.split(".")
    inner = changed
    for key in above:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return changed


def _leaves(value: Document, above: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        yield above + key, inner
        if isinstance(inner, dict) and key not in _FREE:
            yield from _leaves(inner, f"{above}{key}.")


def _mappings(spec: Document) -> list[str]:
    return [key for key, value in spec.items() if isinstance(value, dict)]
