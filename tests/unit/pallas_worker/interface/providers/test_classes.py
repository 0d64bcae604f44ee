"""The table of exception classes against the sources of the libraries: none is missing, and none is left over."""

from __future__ import annotations

import builtins
import functools
import importlib.util
import re
from pathlib import Path

import pytest

from pallas_worker.interface.providers.classes import READINGS

LIBRARIES = {
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "google": ("google.genai", "google.auth.exceptions"),
    "httpx": ("httpx",),
    "httpx2": ("httpx2",),
    "httpcore": ("httpcore",),
    "httpcore2": ("httpcore2",),
    "aiohttp": ("aiohttp.client_exceptions",),
    "websockets": ("websockets",),
    "fast_agent": ("fast_agent.core", "fast_agent.llm"),
}
"""Library → its modules whose exceptions requests to models may raise."""
ELSEWHERE = {
    "fast_agent": {"CopilotAuthenticationError", "_InvalidGrantError"},
    "aiohttp": {"ClientConnectorSSLError", "ClientConnectorCertificateError"},
}
"""Classes whose bases are made in another way, or another module, than the walk sees."""
BUILT_IN = {
    name
    for name, found in vars(builtins).items()
    if isinstance(found, type) and issubclass(found, BaseException)
}


def sources(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    origin = Path(spec.origin)
    return sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]


CLASS = re.compile(r"^[ \t]*class (\w+)\(([^()]*)\):", re.MULTILINE)


@functools.cache
def exceptions(modules: tuple[str, ...]) -> set[str]:
    """The names of the exception classes that are made there, read without importing or parsing anything."""
    bases: dict[str, set[str]] = {}
    for path in (path for module in modules for path in sources(module)):
        for name, named in CLASS.findall(path.read_text(encoding="utf-8")):
            bases.setdefault(name, set()).update(each.strip().rpartition(".")[2] for each in named.split(","))
    found: set[str] = set()
    while more := {name for name, of in bases.items() if of & (BUILT_IN | found)} - found:
        found |= more
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_exception_class_has_a_place(library: str) -> None:
    known = {name for where, name in READINGS if where == library}
    made = exceptions(LIBRARIES[library])
    missing = made - known
    assert missing == set(), "a newer library raises what nobody has thought of: give it a place in `classes`"


def test_no_class_has_a_place_that_no_library_makes() -> None:
    sharing = ("httpx", "httpx2", "httpcore", "httpcore2")  # one's rows are the others'
    for first, *others in (sharing, *((name,) for name in LIBRARIES if name not in sharing)):
        known = {name for where, name in READINGS if where == first}
        made = set[str]().union(*(exceptions(LIBRARIES[name]) for name in (first, *others)))
        assert known - made - ELSEWHERE.get(first, set()) == set(), first
