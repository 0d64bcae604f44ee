"""What the failure of a call says of the LLM that was asked, as its requests have noted it.

Knows how fast-agent says that a key is missing; must not know health.
"""

from __future__ import annotations

from copy import replace

from fast_agent.core.exceptions import ProviderKeyError

from pallas_worker.agent.models.keys import unset_key
from pallas_worker.agent.models.providers import health_name
from pallas_worker.interface.providers.failures import ModelFailure, chain_of, failure_of


def model_failure(error: BaseException) -> ModelFailure | None:
    """What an error that ended a call says of the LLM; None if nothing.

    Only what a request has noted counts: the agent's own code may ask servers, too.
    """
    links = tuple(chain_of(error))
    noted = (getattr(link, "model_failure", None) for link in links)
    failure = next((found for found in noted if isinstance(found, ModelFailure)), None)
    if failure is None and any(isinstance(link, ProviderKeyError) for link in links):
        failure = failure_of(error)  # of an LLM that could not even be made
    if failure is None:
        return None
    if failure.kind == "key_refused" and failure.status is None and (remedy := unset_key(error)):
        failure = replace(failure, kind="key_missing", remedy=remedy)
    return as_health_names_it(failure)


def as_health_names_it(failure: ModelFailure) -> ModelFailure:
    """The same with the provider's name as health has it."""
    provider = failure.provider
    return failure if provider is None else replace(failure, provider=health_name(provider))
