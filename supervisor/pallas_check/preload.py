"""Whether the modules of `preload:` are there. Looks for their files, and imports none of them.

A package that extends its own path while it is imported may have more than is found here: so it is a warning.
"""

from __future__ import annotations

import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from typing import TYPE_CHECKING

from pallas_check.findings import Finding
from pallas_common.problems import Problem, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pallas_registry.deployment.model import Deployment

_REMEDY = "install it into the environment of pallas, or mend the name; agents start without it all the same"


def preload_findings(deployment: Deployment, file: Path, directory: Path) -> Iterator[Finding]:
    """A warning for each that neither this interpreter nor the working directory has.

    Args:
        file: `agents.yaml`, as problems shall name it.
        directory: the agents' working directory.
    """
    for index, name in enumerate(deployment.preload):
        missing = missing_part(name, [str(directory), *sys.path])
        if missing is not None:
            field = f"preload[{index}]"
            place = deployment.places.get(field)
            said = f"there is no module {quoted(missing)}"
            problem = Problem(str(file), place.line if place else None, field, said, _REMEDY)
            yield Finding(problem=problem, level="warning")


def missing_part(name: str, path: Sequence[str]) -> str | None:
    """The first part of a dotted name that is not there, with what stands before it; None if all are."""
    parts = name.split(".")
    if any(finder.find_spec(parts[0]) is not None for finder in (BuiltinImporter, FrozenImporter)):
        return None
    locations: Sequence[str] | None = path
    for number in range(1, len(parts) + 1):
        part = ".".join(parts[:number])
        try:
            spec = None if locations is None else PathFinder.find_spec(part, locations)
        except (ImportError, OSError, ValueError):
            spec = None
        if spec is None:
            return part
        found = spec.submodule_search_locations
        locations = None if found is None else list(found)
    return None
