"""Writes the documents that are made from code, or checks that they are what the code says.

    python -m scripts.lib.generate [--check]     in the repository's folder

A new one is a module beside this one with `page()`, and a line in `DOCUMENTS`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.lib import (
    dashboard,
    man_pages,
    openapi,
    parameters_page,
    resources_schema,
    schema,
    state_diagram,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]

DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/states.md": state_diagram.page,
    "docs/openapi.json": openapi.page,
    "docs/parameters.md": parameters_page.page,
    "deploy/grafana/pallas.json": dashboard.page,
    "registry/pallas_registry/deployment/agents.schema.json": schema.page,
    "registry/pallas_registry/resources/resources.schema.json": resources_schema.page,
    "deploy/man/pallas.1": man_pages.pallas_page,
    "deploy/man/pallasctl.1": man_pages.pallasctl_page,
}
"""File, relative to the repository → its whole text."""


def outdated(root: Path) -> dict[Path, str]:
    """The files below `root` that are missing or differ, each with the text that it should have."""
    texts = {root / name: page() for name, page in DOCUMENTS.items()}
    return {path: text for path, text in texts.items() if not path.is_file() or path.read_text() != text}


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Exit status: 0 all is as the code says, 1 something differs (`--check`), 2 wrong usage."""
    if arguments not in ([], ["--check"]):
        print("usage: scripts/generate [--check]", file=sys.stderr)
        return 2
    for path, text in (found := outdated(root)).items():
        name = path.relative_to(root)
        if arguments:
            print(f"error: {name} is not what the code says: run scripts/generate", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"written: {name}")
    return 1 if arguments and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
