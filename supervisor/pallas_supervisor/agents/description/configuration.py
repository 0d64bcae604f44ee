"""The configuration in effect as one document: what the supervisor last took over, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pallas_supervisor.agents.description.settings import agent_settings, deployment_settings, variables

if TYPE_CHECKING:
    from pallas_common.secrets.values import KnownSecrets
    from pallas_supervisor.reload.drift import Drift


def configuration_document(drift: Drift, secrets: KnownSecrets) -> dict[str, Any]:
    """`GET /v1/configuration`; what the files say now is as `drift` last saw it."""
    deployment = drift.deployment
    return {
        "file": str(drift.source.path),
        "directory": str(drift.source.directory),
        "only": drift.source.only,
        "files": drift.document(),
        "deployment": deployment_settings(deployment),
        "agents": [
            {
                "name": agent.name,
                "line": agent.line,
                "settings": agent_settings(agent),
                "env": variables(agent, secrets),
            }
            for agent in deployment.agents.values()
        ],
    }
