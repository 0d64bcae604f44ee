"""Whether an LLM of fast-agent's has a key, or what else its provider asks for, and what to do where it has none.

Knows fast-agent's public LLMs and their errors; must not know agents. Some providers take the key of each caller:
without one of its own, such an LLM lacks nothing.
"""

from __future__ import annotations

import re
from typing import Any

from fast_agent.core.exceptions import ProviderKeyError, format_fast_agent_error, walk_exception_chain

TOKEN_PROVIDERS = frozenset({"hf", "huggingface"})
"""fast-agent's names of the LLM providers that take the caller's own token for their key."""

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{0,40}_(?:API_KEY|TOKEN)\b")


def missing_key(llm: Any) -> str | None:
    """What the LLM lacks before it can be asked, and the remedy; None if it lacks nothing."""
    if llm.provider.config_name in TOKEN_PROVIDERS:
        return None
    try:
        llm.validate_provider_credentials()
    except ProviderKeyError as error:
        return key_remedy(error, llm.provider.display_name)
    return None


def key_remedy(error: ProviderKeyError, provider: str | None = None) -> str:
    """What is missing and what to do about it, in one line; fast-agent's own words where they name no variable."""
    if (variable := _VARIABLE.search(error.details)) is None:
        return format_fast_agent_error(error)
    what = f"no API key is configured for {provider}" if provider else error.message
    return f"{what}: set {variable[0]} in .env"


def unset_key(error: BaseException) -> str | None:
    """The remedy of a call that failed for want of a key; None where it failed for another reason."""
    for link in walk_exception_chain(error):
        if isinstance(link, ProviderKeyError) and (variable := _VARIABLE.search(link.details)) is not None:
            return f"set {variable[0]} in .env"
    return None
