"""What a start does before it serves: the agent's code loaded, its settings completed, one instance tried.

A start and an inspection (`inspection`) both go this way, so that what one of them finds, the other finds as well, in
the same words. Knows nothing of ports, of the log, or of what comes afterwards.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fast_agent.core.exceptions import (
    EnvironmentStartupError,
    FastAgentError,
    ModelConfigError,
    ProviderKeyError,
    ServerConfigError,
    format_fast_agent_error,
)

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_common.protocol.reports import StageReport
from pallas_common.secrets.values import secrets_in
from pallas_worker.agent.definitions import undefined_agents
from pallas_worker.agent.models.capabilities import model_reference, register_model
from pallas_worker.agent.models.keys import key_remedy
from pallas_worker.agent.models.providers import forget_unresolved, provider_of, settle_addresses
from pallas_worker.downstreams.settings import unset_variables
from pallas_worker.fastagent.application import settings_of
from pallas_worker.fastagent.instructions.files import instruction_files
from pallas_worker.fastagent.shortcuts import share_tls_with_providers
from pallas_worker.fastagent.streams.plain_requests import lighten_requests
from pallas_worker.fastagent.streams.plain_text import lighten_chat_streams
from pallas_worker.fastagent.streams.transports import remember_failed_websockets
from pallas_worker.fastagent.tools.guard import programmatic_tools_warnings
from pallas_worker.health.needs import providers_for
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.turns import (
    default_warnings,
    defaults_of,
    permitted_tools,
)
from pallas_worker.process.user_module.errors import UserCode
from pallas_worker.process.user_module.loaded_code import code_reports
from pallas_worker.process.user_module.loading import Loaded, load_agents, made_instance
from pallas_worker.raised import contained
from pallas_worker.redact import known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from fast_agent import FastAgent
    from fast_agent.config import Settings

    from pallas_common.protocol.reports import Report
    from pallas_common.protocol.spec import WorkerSpec
    from pallas_worker.agent.instance import Instance
    from pallas_worker.agent.models.capabilities import AskedModel
    from pallas_worker.agent.models.providers import ProviderSettings
    from pallas_worker.agent.runtime import AgentRuntime
    from pallas_worker.health.needs import Provider

_log = get_logger("pallas.worker.serve")


class LoadedCode(NamedTuple):
    """What the agent is made from."""

    fast: FastAgent
    settings: Settings
    """Of `fast`, complete."""
    code: UserCode


class ImportedCode(NamedTuple):
    """What the agent is made from, as its modules have left it."""

    loaded: Loaded
    code: UserCode


def import_code(spec: WorkerSpec, report: Callable[[Report], None]) -> ImportedCode:
    """Import what the agent is made from: before a loop runs, so that its modules may run loops of their own.

    The working directory is `spec.directory` and is on the module path. `report` takes the stage.

    Raises:
        AgentError: it cannot be loaded, or has no FastAgent; its text says why, in one line.
    """
    report(StageReport(stage="importing"))
    known.add(spec.secrets.values())
    code = UserCode(spec.directory, spec.source)
    return ImportedCode(load_agents(spec.source, code, report, spec.definition, spec.secrets), code)


async def complete_code(
    spec: WorkerSpec, imported: ImportedCode, report: Callable[[Report], None]
) -> LoadedCode:
    """Make the agent's FastAgent, and put right what fast-agent would misread of its settings.

    `report` takes the stage, and which files were loaded.

    Raises:
        AgentError: it cannot be loaded, or has no FastAgent; its text says why, in one line.
    """
    loaded, code = imported
    fast = await made_instance(loaded, spec.source, code, report)
    for warning in (*loaded.warnings, *undefined_agents(fast.agents)):
        _log.warning(warning)
    for told in code_reports(code, (*loaded.files, *instruction_files())):
        report(told)
    report(StageReport(stage="creating"))
    settings = settings_of(fast)
    known.add(secrets_in(settings.model_dump()))
    _complete(settings, spec)
    return LoadedCode(fast, settings, code)


@contextmanager
def definition_errors(spec: WorkerSpec) -> Iterator[None]:
    """Within the block, what fast-agent finds wrong with the definitions becomes an `AgentError`."""
    try:
        yield
    except FastAgentError as error:
        # A broken definition stays broken; an environment may come up later.
        permanent = not isinstance(error, EnvironmentStartupError)
        raise AgentError(
            f"{type(error).__name__}: {_advice(error, declared=spec.definition is not None)}",
            permanent=permanent,
        ) from error


class Trial(NamedTuple):
    """What the making of an instance has shown."""

    failure: str | None
    """Why no call can be answered and what to do about it, in one line; None if nothing is known to be wrong."""
    tools: Mapping[str, Sequence[str]]
    """By agent, the names of the tools that it can call."""


async def try_instance(
    spec: WorkerSpec, runtime: AgentRuntime, code: UserCode, making: AbstractAsyncContextManager[Instance]
) -> Trial:
    """Make and dispose of an instance: what is wrong shows now, and no caller pays for late imports.

    Args:
        making: makes the instance, of `runtime`.

    Raises:
        AgentError: the instance cannot be made.
        fast_agent.core.exceptions.FastAgentError: a definition is wrong.
    """
    failure: str | None = None
    tools: Mapping[str, Sequence[str]] = {}
    defaults = defaults_of(spec)
    for server in runtime.downstreams if spec.definition is None else ():  # whose texts know no variables
        for header, variable in unset_variables(server):
            _log.warning(
                f"server {server.name}: the header {header} names {variable}, which is not set: set it in .env"
            )
    try:
        with contained():
            async with making as instance:
                for name, remedy, needed in instance.missing_keys():
                    if needed:
                        failure = failure or remedy
                    else:
                        _log.warning(f"the LLM of {name}, which is only asked as a tool: {remedy}")
                share_tls_with_providers()
                lighten_chat_streams()
                lighten_requests()
                remember_failed_websockets()
                tools = await instance.tool_names()
                for warning in await default_warnings(instance, defaults, permitted_tools(spec), tools):
                    _log.warning(warning)
                failure = _with_own_key(failure, spec)
    except ProviderKeyError as error:
        _log.warning(f"no instance can be made: {key_remedy(error)}")
        failure = None if runtime.takes_callers_keys else _with_own_key(key_remedy(error), spec)
    except FastAgentError:
        raise
    except Exception as error:
        raise AgentError(code.describe(error), permanent=False) from error
    return Trial(failure, tools)


def _with_own_key(remedy: str | None, spec: WorkerSpec) -> str | None:
    """The remedy for a key that is missing; the model of a declared agent may have one of its own."""
    llm = spec.definition.llm if spec.definition is not None else None
    return remedy if remedy is None or llm is None else f"{remedy}, or give the llm {llm.name} an apiKeyRef"


def providers_to_probe(
    runtime: AgentRuntime, settings: Settings, failure: str | None
) -> tuple[Provider, ...]:
    """The LLM providers that the agent needs, as far as each can be asked.

    Args:
        failure: that of the trial.
    """

    def provider_of_model(model: AskedModel) -> ProviderSettings | None:
        provider = provider_of(model, settings, os.environ)
        if provider is not None and provider.api_key is None and failure is None:
            return (
                None  # it has credentials of another kind, such as ANTHROPIC_AUTH_TOKEN: only calls can show
            )
        return provider

    return providers_for(runtime.asked_models, provider_of_model)


def qualified(model: str | None) -> str | None:
    """The model as `provider.model-name`."""
    if model is None:
        return None
    reference = model_reference(model)
    return f"{reference.provider}.{reference.name}" if reference.provider is not None else reference.name


def _complete(settings: Settings, spec: WorkerSpec) -> None:
    """Put right what fast-agent would misread: placeholders that nothing fills, an unknown model."""
    for warning in (*forget_unresolved(settings), *programmatic_tools_warnings(settings)):
        _log.warning(warning)
    settle_addresses(settings, os.environ)
    if settings.default_model is None:
        settings.default_model = spec.default_model
    if spec.default_model is not None:
        register_model(spec.default_model, spec.capabilities or ModelCapabilities())


def _advice(error: FastAgentError, *, declared: bool) -> str:
    """What is wrong and what to do, in one line; fast-agent's advice for its own command line is none here."""
    if error.message == "No model configured":
        own = "give the agent an llm or a model" if declared else "or model= in the agent's decorator"
        remedy = "set default_model in fastagent.config.yaml (in fast-agent.yaml, if that is what there is)"
        return f"{error.message}: " + (f"{own}, or {remedy}" if declared else f"{remedy}, {own}")
    remedies = _REMEDIES_DECLARED if declared else _REMEDIES
    remedy = next((text for kind, text in remedies.items() if isinstance(error, kind)), "")
    return f"{format_fast_agent_error(error).rstrip('.')}{remedy}"


_REMEDIES_DECLARED: Mapping[type[FastAgentError], str] = {
    ModelConfigError: "; correct `model:` of the agent or of its llm, or default_model in fastagent.config.yaml",
}
_REMEDIES: Mapping[type[FastAgentError], str] = {
    ServerConfigError: "; define it below `mcp: servers:` in fastagent.config.yaml",
    ModelConfigError: "; correct the agent's model, or default_model in fastagent.config.yaml",
}
