"""The tools of an agent of Pallas as models see them: one, called after the agent.

An agent's port lists three: `send_message`, the same under the agent's name, and `get_health`. To a model that has the
agent among its servers the second alone is one it can choose by its name. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SEND_MESSAGE = "send_message"
GET_HEALTH = "get_health"


def hidden_tools(schemas: Mapping[str, object]) -> frozenset[str]:
    """Find those tools of a server that models need not see: none, unless it is an agent and has one of its name.

    Args:
        schemas: the schema of each tool's arguments, by the tool's name.
    """
    if len(schemas) > 3 or SEND_MESSAGE not in schemas:
        return frozenset()
    others = schemas.keys() - {SEND_MESSAGE, GET_HEALTH}
    if len(others) != 1 or schemas[next(iter(others))] != schemas[SEND_MESSAGE]:
        return frozenset()
    return frozenset(schemas.keys() - others)
