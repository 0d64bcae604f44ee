"""What the zygote imports before it forks: what all workers need, LLM providers in use, modules that the user names.

Importing the libraries of all providers would take as long as all else together, so a provider's come with the first
model of it that the deployment is known to use. All that goes wrong here costs time or is told, never function: a
worker imports what it lacks.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from pallas_common.problems import shortened
from pallas_common.protocol.spec import EXIT_FAILURE
from pallas_common.tracing.settings import tracing_settings
from pallas_worker.process.sibling_fork import use_no_more
from pallas_worker.process.zygote.double_fork import has_one_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRELOAD = (
    "anyio._backends._asyncio",
    "asyncio",
    "fast_agent",
    "fast_agent.core.direct_factory",
    "fast_agent.core.environment_lifecycle",
    "fast_agent.core.harness",
    "fast_agent.core.managed_runtime",
    "fast_agent.history.compaction",
    "fast_agent.hooks.compaction",
    "fast_agent.llm.internal.passthrough",
    "fast_agent.llm.model_info",
    "fast_agent.mcp.mcp_aggregator",
    "fast_agent.mcp.mcp_connection_manager",
    "fast_agent.plugins.post_user_turn",
    "fast_agent.tools.attach_media",
    "fast_agent.tools.composite_filesystem_runtime",
    "fast_agent.tools.environment_filesystem_runtime",
    "fast_agent.tools.environment_patch",
    "fast_agent.tools.local_filesystem_runtime",
    "httpcore2",
    "httpx",
    "mcp.client.streamable_http",
    "mcp.server.lowlevel",
    "mcp.server.streamable_http_manager",
    "pallas_worker.process.run",
    "pallas_worker.process.serve",
    "pallas_worker.process.zygote.warm_up",
    "prometheus_client",
    "truststore",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
)
"""What every worker needs and what is slow to import; a name that has moved costs time, not function."""

UNUSED = "acp.schema"
"""Imported by fast-agent, used by no worker: the protocol that editors speak."""

TRACING = "pallas_common.tracing.provider"
"""The same where traces are made. Importing starts no thread; the worker opens the provider, which does."""

INSTRUMENTATIONS = ("anthropic", "openai")
"""Libraries whose calls are traced by a module `opentelemetry.instrumentation.<name>`."""

LONGEST_TEXT = 500
"""Characters that are told of what a module prints or raises."""

SETTLING = 0.5
"""Seconds that threads of an import may take to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is told of an import: to the supervisor, which logs it."""

    importing: str | None = None
    """This is being imported now."""
    failed: str | None = None
    """It could not be imported: why."""
    printed: str | None = None
    """It was, and has printed this."""
    unsafe: str | None = None
    """It was, and makes forking unsafe: why. This process ends."""


def preload() -> None:
    """Import what all workers need."""
    with contextlib.suppress(ImportError), _models_built_when_used():
        importlib.import_module(UNUSED)
    for name in (*PRELOAD, *((TRACING,) if tracing_settings(os.environ).on else ())):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    platform.platform()  # goes into every agent's prompt context, and asks a program that it starts


@contextlib.contextmanager
def _models_built_when_used() -> Iterator[None]:
    """Have pydantic build the models that are defined within the block once one is used, without their docstrings.

    To read the source of the 270 models of `UNUSED` for docstrings, and to build them, takes a tenth of the time of all
    that is imported here.
    """
    made = pydantic.ConfigDict

    def lean(**settings: Any) -> pydantic.ConfigDict:
        return made(**{**settings, "use_attribute_docstrings": False, "defer_build": True})

    vars(pydantic)["ConfigDict"] = lean
    try:
        yield
    finally:
        vars(pydantic)["ConfigDict"] = made


def import_provider(model: str) -> None:
    """Import what a worker with this model needs; nothing where it is no model's name."""
    from fast_agent.core.exceptions import ModelConfigError
    from fast_agent.llm.model_factory import ModelFactory

    from pallas_worker.fastagent.streams.plain_requests import lighten_requests
    from pallas_worker.fastagent.streams.transports import remember_failed_websockets

    with contextlib.suppress(ModelConfigError):
        ModelFactory.create_factory(model)  # which imports the class that asks the provider
        lighten_requests()
        remember_failed_websockets()
    if tracing_settings(os.environ).on:
        for library in INSTRUMENTATIONS:
            if library in sys.modules:
                with contextlib.suppress(ImportError):
                    importlib.import_module(f"opentelemetry.instrumentation.{library}")


class OwnFiles:
    """The user's files that are imported already: a worker that is forked after one has changed would have the old."""

    def __init__(self, directory: str) -> None:
        self._below = directory.rstrip("/") + "/"
        self._states: dict[str, tuple[int, ...]] = {}

    def look(self) -> None:
        """Remember the state of those imported since the last look."""
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and file.startswith(self._below) and file not in self._states:
                self._states[file] = _state(file)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._states)

    def changed(self) -> str | None:
        """One that is not what was imported, by its path below the working directory."""
        differing = (file for file, state in self._states.items() if _state(file) != state)
        found = next(differing, None)
        return None if found is None else found.removeprefix(self._below)


def import_modules(names: list[str], directory: str, tell: Callable[[Told], None]) -> None:
    """Import modules that the user names, with the module path that workers have.

    One that leaves a thread running ends this process once that is told: none could be forked safely any more.
    """
    if names:
        use_no_more()
    sys.path.insert(0, directory)
    try:
        for name in names:
            _watched(name, lambda name=name: importlib.import_module(name), tell)  # type: ignore[misc]
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(directory)


def import_providers(models: list[str], tell: Callable[[Told], None]) -> None:
    """The same with what workers with these models need, as far as it is not there."""
    for model in models:
        _watched(model, lambda model=model: import_provider(model), tell)  # type: ignore[misc]


def _watched(name: str, do: Callable[[], object], tell: Callable[[Told], None]) -> None:
    tell(Told(importing=name))
    environment, directory = dict(os.environ), Path.cwd()
    with output() as printed:
        try:
            do()
        except BaseException as error:  # noqa: BLE001 - also SystemExit, which many scripts raise
            tell(Told(failed=_said(error)))
    os.chdir(directory)
    if dict(os.environ) != environment:  # the workers' is made from the supervisor's
        os.environ.clear()
        os.environ.update(environment)
    if text := printed.get("text"):
        tell(Told(printed=_shortened(text)))
    if not settled():
        tell(Told(unsafe=f"leaves {threads()} running"))
        os._exit(EXIT_FAILURE)


@contextlib.contextmanager
def output() -> Iterator[dict[str, str]]:
    """Keep what is written to stdout and stderr within the block; its beginning is the item `text` afterwards."""
    kept: dict[str, str] = {}
    before = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as file:
        for target in (1, 2):
            os.dup2(file.fileno(), target)
        try:
            yield kept
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(AttributeError, OSError, ValueError):
                    stream.flush()
            for target, saved in enumerate(before, start=1):
                os.dup2(saved, target)
                os.close(saved)
            file.seek(0)
            kept["text"] = file.read(LONGEST_TEXT * 4).decode(errors="replace")


def _said(error: BaseException) -> str:
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if frame.filename != __file__]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return _shortened(f"{type(error).__name__}: {error}") + place[-LONGEST_TEXT:]


def _shortened(text: str) -> str:
    return shortened(" ".join(text.split()), LONGEST_TEXT)


def settled() -> bool:
    """Whether this process has one thread, at once or after a moment.

    Numerical libraries end their threads before a fork and make them again when they compute: so one is forked.
    """
    if has_one_task():
        return True
    if (forked := os.fork()) == 0:
        os._exit(0)
    os.waitpid(forked, 0)
    deadline = time.monotonic() + SETTLING
    while not has_one_task():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def threads() -> str:
    """The names of the threads beside the first one, for a message."""
    names = sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
    if not names:
        return "a thread of a library in C"
    return _shortened(f"the thread{'s' if len(names) > 1 else ''} {', '.join(names)}")


def _state(file: str) -> tuple[int, ...]:
    try:
        found = Path(file).stat()
    except (OSError, ValueError):
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)
