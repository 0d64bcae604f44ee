"""The verb `gateway`, with verbs of its own.

Knows their names, and nothing of what they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pallasctl.groups import LazyGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

VERBS: Mapping[str, str] = {
    "status": "pallasctl.verbs.gateway.status",
    "start": "pallasctl.verbs.gateway.operate",
    "stop": "pallasctl.verbs.gateway.operate",
    "restart": "pallasctl.verbs.gateway.operate",
    "backup": "pallasctl.verbs.gateway.backup",
    "restore": "pallasctl.verbs.gateway.backup",
}
"""Verb → the module that holds the click command of that name."""


@click.group(cls=LazyGroup, verbs=VERBS)
def gateway() -> None:
    """See and operate the gateway: the one address of all agents.

    `gateway: {}` in agents.yaml turns it on.
    """
