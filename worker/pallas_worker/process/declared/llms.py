"""The models of a definition, checked as far as that needs nobody else.

Knows definitions; how fast-agent gets a model is `fastagent.declared.models`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import did_you_mean, quoted
from pallas_worker.fastagent.declared.models import (
    declared_model,
    provider_called,
    provider_names,
    takes_address,
)
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.secrets import filled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.definition import AgentDefinition, LlmDefinition
    from pallas_worker.fastagent.declared.models import DeclaredModel


def declared_models(definition: AgentDefinition, secrets: Mapping[str, str]) -> list[DeclaredModel]:
    """The agent's own model and those that a call may have in its place, each once.

    Raises:
        AgentError: one of them cannot be asked; says which field of which llm.
    """
    llms = {llm.name: llm for llm in (definition.llm, *definition.models) if llm is not None}
    return [_model(llm, secrets) for llm in llms.values()]


def _model(llm: LlmDefinition, secrets: Mapping[str, str]) -> DeclaredModel:
    provider = provider_called(llm.provider)
    if provider is None:
        names = provider_names()
        near = did_you_mean(llm.provider, names)
        remedy = f"did you mean {near}?" if near else f"known are {', '.join(names)}"
        raise _refused(llm, "type", f"{quoted(llm.provider)} is no provider of fast-agent's; {remedy}")
    if not llm.model.strip():
        raise _refused(llm, "model", "is empty: say what the provider calls the model")
    if llm.url is not None and not takes_address(provider):
        raise _refused(
            llm,
            "url",
            f"models of {provider.display_name} are not asked at an address of their own; remove it, and set "
            f"the address below `{provider.config_name}:` in fastagent.config.yaml",
        )
    where = f"llm {llm.name}"
    key = llm.api_key
    if key is not None:
        key = filled(key if "${" in key else f"${{secret:{key}}}", secrets, f"{where}: apiKeyRef")
    url = None if llm.url is None else filled(llm.url, secrets, f"{where}: url")
    return declared_model(llm.name, provider, llm.model.strip(), url, key, closed=llm.closed)


def _refused(llm: LlmDefinition, field: str, complaint: str) -> AgentError:
    return AgentError(f"llm {llm.name}: {field}: {complaint}", permanent=True)
