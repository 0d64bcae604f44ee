"""The values of secrets, put into the texts of a definition. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.secrets.references import with_secrets
from pallas_worker.interface.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping


def filled(text: str, secrets: Mapping[str, str], where: str) -> str:
    """The text with the values of the secrets that it refers to.

    Args:
        where: the field of which resource it is, for the message.

    Raises:
        AgentError: a secret has no value here.
    """
    try:
        return with_secrets(text, secrets)
    except KeyError as missing:
        name, _, key = str(missing.args[0]).partition("/")
        raise AgentError(
            f"{where}: the secret {name} has no key {key}: create it, or mend the reference", permanent=True
        ) from None
