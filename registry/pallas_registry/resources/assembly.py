"""A deployment from `agents.yaml` and resources: what it becomes by them, and which of them cannot be used. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pallas_registry.resources.deploy import deploy
from pallas_registry.resources.files import KeptResources
from pallas_registry.resources.model import KINDS, ResourceSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.problems import Problem
    from pallas_registry.deployment.model import Deployment
    from pallas_registry.resources.model import ResourceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What a deployment is made of, and what it is."""

    base: Deployment
    """`agents.yaml` alone."""
    kept: KeptResources = field(compare=False)
    """What is in the files, whether it can be used or not."""
    deployment: Deployment = field(compare=False)
    resources: ResourceSet
    """All that can be used."""
    disabled: Mapping[ResourceId, tuple[Problem, ...]] = field(default_factory=dict)
    """What is wrong with the others, and with what they need."""
    doubles: tuple[Problem, ...] = ()
    """Those of the problems which say that an agent is in `agents.yaml` as well."""


def assemble(base: Deployment, kept: KeptResources) -> Assembly:
    """The deployment with all that can be used. What cannot, and what needs it, is left out with the reason."""
    ordered = sorted(kept.resources.values(), key=lambda each: (KINDS.index(each.id.kind), each.id.name))
    resources = ResourceSet(ordered)
    deployed = deploy(base, resources, kept.fingerprint)
    disabled = {**deployed.problems, **kept.problems}
    return Assembly(
        base=base,
        kept=KeptResources(resources=resources, problems=kept.problems, key=kept.key),
        deployment=deployed.deployment,
        resources=resources.changed(gone=disabled) if disabled else resources,
        disabled=disabled,
        doubles=deployed.doubles,
    )
