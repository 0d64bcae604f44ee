"""What an agent is made from, loaded: a FastAgent, out of a module, a file, a factory, agent cards, or a definition.

What is wrong with it is said in the user's terms. Must not know how an agent is run.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from fast_agent import FastAgent

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.link.redacted_stdio import put_back_closed
from pallas_worker.fastagent.application import check_names
from pallas_worker.fastagent.implicit_sources import disable_implicit_sources
from pallas_worker.fastagent.instructions.dates import keep_dates
from pallas_worker.fastagent.instructions.files import note_files
from pallas_worker.fastagent.shortcuts import take_shortcuts_at_start
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.agent import make_agent
from pallas_worker.process.user_module.cards import load_cards
from pallas_worker.process.user_module.import_position import reporting_position
from pallas_worker.process.user_module.instances import PromisedInstance, call_factory, find_instance
from pallas_worker.process.user_module.modules import import_source, namesake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pallas_common.protocol.agent.definition import AgentDefinition
    from pallas_common.protocol.agent.source import AgentSource
    from pallas_common.protocol.reports import FailedReport
    from pallas_worker.process.user_module.errors import UserCode


_SAMPLE: dict[str, object] = {"a": [1, None, "é"]}
_JSON: dict[str, Callable[[Callable[..., object]], bool]] = {
    "dumps": lambda dumps: (
        isinstance(text := dumps(_SAMPLE), str) and json.JSONDecoder().decode(text) == _SAMPLE
    ),
    "loads": lambda loads: loads(json.JSONEncoder().encode(_SAMPLE)) == _SAMPLE,
}
"""Functions of `json`, and whether one in their place does what they do."""

_log = get_logger("pallas.worker.loading")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a source holds."""

    fast: FastAgent | PromisedInstance
    files: tuple[Path, ...] = ()
    """Absolute, of the cards that were read; modules are in `sys.modules`."""
    warnings: tuple[str, ...] = ()
    """What was taken as it is and is probably a mistake, one line each."""


def load_agents(
    source: AgentSource,
    code: UserCode,
    report: Callable[[FailedReport], None],
    definition: AgentDefinition | None = None,
    secrets: Mapping[str, str] = MappingProxyType({}),
) -> Loaded:
    """Load `source`. The working directory is the process's own, and on the module path; no loop runs.

    Runs the user's code. Changes this process: its arguments, its module path, and what fast-agent loads of its own
    accord. Asked by a signal to end meanwhile, the process reports where it is, and does; so it has to run in the main
    thread.

    Args:
        definition: what the agent is made from, where `source` says so.
        secrets: the values that the definition refers to, `NAME/KEY` → value.

    Raises:
        AgentError: there is no such module or card, it cannot be loaded, or it has no FastAgent.
    """
    check_names()
    disable_implicit_sources()
    keep_dates()
    note_files()
    take_shortcuts_at_start()
    # Not every FastAgent(...) passes parse_cli_args=False, and our arguments are not for it.
    sys.argv = [source.path]
    with _errors_of(source, code), reporting_position(code, report):
        if definition is not None:
            return Loaded(make_agent(source.path, definition, secrets))
        if source.kind == "card":
            return Loaded(*load_cards(source, code))
        imported = import_source(source, code.directory)
        _look_after_process(code)
        found = find_instance(source, imported, code)
        return Loaded(call_factory(source, found, code) if source.is_factory else found)


async def made_instance(
    loaded: Loaded, source: AgentSource, code: UserCode, report: Callable[[FailedReport], None]
) -> FastAgent:
    """Return the FastAgent of what `load_agents` has loaded, in the loop that is to serve it.

    Raises:
        AgentError: a factory that has to be awaited makes none.
    """
    _warn_of_patched_asyncio()
    if isinstance(loaded.fast, FastAgent):
        return loaded.fast
    with _errors_of(source, code), reporting_position(code, report):
        return await loaded.fast.made()


@contextmanager
def _errors_of(source: AgentSource, code: UserCode) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        said = str(error) if isinstance(error, AgentError) else code.describe(error)
        raise AgentError(namesake(source, code) or said, permanent=True) from error


def _look_after_process(code: UserCode) -> None:
    """See that modules have left what all libraries of the process need.

    Raises:
        AgentError: one has replaced a function of `json` by another that does not do the same.
    """
    for name in put_back_closed():
        _log.warning(
            f"code of the agent has closed sys.{name}: it is opened again, so that `print` does not fail"
        )
    for name, try_it in _JSON.items():
        function = getattr(json, name)
        try:
            works = try_it(function)
        except Exception:  # noqa: BLE001 - of a function that nobody knows
            works = False
        if not works:
            raise AgentError(
                f"{code.place_of(function)}json.{name} was replaced by a function that does not do the same, and all "
                "libraries of the process would use it: leave Python's own, and call yours by its own name",
                permanent=True,
            )


def _warn_of_patched_asyncio() -> None:
    """Warn where a library has changed asyncio's own loops, in vain: another one runs."""
    loop = asyncio.get_running_loop()
    if hasattr(asyncio, "_nest_patched") and not isinstance(loop, asyncio.BaseEventLoop):
        _log.warning(
            "nest_asyncio has no effect on the loop that the agent runs in, which is uvloop's: if its code runs loops "
            "within that one, set `loop: asyncio` for the agent"
        )
