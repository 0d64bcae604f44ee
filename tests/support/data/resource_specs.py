"""A spec of each kind with all that it may say, and values that are wrong nearly everywhere in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.data.resource_texts import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL: dict[str, dict[str, Any]] = {
    "agent": {
        "description": "d",
        "llm": {"name": "q"},
        "models": ["q", {"name": "r"}],
        "project": "p",
        "systemPrompt": "one\ntwo",
        "defaultParams": {
            "temperature": 0.5,
            "stop": ["a", "b"],
            "seed": 4,
            "logit_bias": {"1": 2},
            "tool_choice": {"type": "function", "function": {"name": "a"}},
            "parallel_tool_calls": True,
            "extra": {"a": {"b": [1]}},
        },
        "servers": ["s", {"name": "t"}],
        "tools": ["s__*"],
        "outputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "maxIterations": 3,
        "proxyModelName": "m",
        "extras": {"a": [1, {"b": None}]},
        "run": {
            "port": 8201,
            "title": "T",
            "depends_on": ["other"],
            "icon": "/i",
            "python": "p",
            "env": {"A": "b"},
            "start": "always",
            "idle_timeout": 5.5,
            "memory_limit": "512MiB",
            "max_queue": 4,
            "max_returns": 2,
            "context_overflow": "shorten",
            "overrides": True,
        },
    },
    "llm": {
        "description": "d",
        "type": "openai",
        "model": "m",
        "url": "http://h/v1",
        "apiKeyRef": {"name": "k", "key": "A"},
        "extras": {"a": 1},
    },
    "secret": {"data": {"A": "one", "B": {"digest": digest("x")}}},
    "server": {"description": "d", "url": "http://h/", "headers": {"A": "${secret:k/A}"}, "readTimeoutSeconds": 5},
    "project": {"description": "d", "servers": ["s"], "prompts": [{"name": "a", "description": "d", "text": "t"}]},
}  # fmt: skip
BY_COMMAND = {"command": "x", "args": ["a"], "env": {"A": "b"}, "cwd": "/", "transport": "stdio"}
SPECS = [*FULL.items(), ("server", BY_COMMAND)]

FREE = {"extras", "extra", "outputSchema", "logit_bias"}
"""Below these, other rules than ours say what is known, or none at all."""


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something stands in a spec, that our rules speak of."""
    yield path
    if path and path[-1] in FREE:
        return
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield from places(inner, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


DEEP: Any = {}
for _ in range(80):
    DEEP = {"a": [DEEP]}
WRONG: dict[str, Any] = {
    "number": 10**400,
    "negative": -1,
    "truth": True,
    "nothing": None,
    "empty": "",
    "list": [],
    "nested": [[]],
    "mapping": {},
    "unknown": {"unknown": {"unknown": 1}},
    "deep": DEEP,
    "huge": "x y\n" * 100_000,
    "strange": "\x07\u2028",
}
