"""Paths of OpenAI's API that agents do not have, and what there is in their place. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.problems import shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPLETIONS = "an agent answers POST /v1/chat/completions"
_NONE = f"agents do not make that; {_COMPLETIONS}"
_INSTEAD: Mapping[str, str] = {
    "responses": f"{_COMPLETIONS}: in OpenAI's SDKs client.chat.completions.create(…) in place of "
    "client.responses.create(…)",
    "completions": f"{_COMPLETIONS}: send the prompt as a message of the user",
    "messages": f"{_COMPLETIONS}: set the client to a provider of OpenAI's kind",
    "embeddings": "agents make no embeddings; ask the model's own provider for them",
    "audio": _NONE,
    "images": _NONE,
    "moderations": _NONE,
    "files": f"{_COMPLETIONS}, with texts and images in the messages",
    "conversations": f"{_COMPLETIONS}, with the whole conversation in each request",
    "assistants": f"{_COMPLETIONS}; the agents are the assistants",
    "threads": f"{_COMPLETIONS}, with the whole conversation in each request",
}
"""First part of a path below /v1 → what to use."""


def no_such_path(method: str, path: str, otherwise: str) -> str:
    """Return what is said of a path below /v1 that is not there.

    Args:
        otherwise: what there is, where nothing is known of the path.
    """
    first = path.removeprefix("/v1/").partition("/")[0]
    return (
        f"there is no {shortened(method, 20)} {shortened(path, 100)} here; {_INSTEAD.get(first, otherwise)}"
    )
