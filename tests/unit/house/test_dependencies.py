"""`pyproject.toml` declares what the product imports, no less and no more, and `constraints.txt` fits it."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.repository import ROOT
from support.sources import PACKAGES, imports_of, sources, where

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = {canonicalize_name(one.name): one for one in map(Requirement, PROJECT["dependencies"])}
OPTIONAL = [Requirement(one) for group in PROJECT["optional-dependencies"].values() for one in group]
CONSTRAINTS = {
    canonicalize_name(name): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE
    )
}

FILES = {
    str(file.locate()): name
    for name in DECLARED
    for file in distribution(name).files or ()
    if file.suffix in (".py", ".so")
}
"""Installed file → the declared distribution that it is of."""


NOT_NEEDED = {"uvloop"}
"""What the product takes where it is there, and does without where it is not."""


def owner(module: str, name: str | None) -> str | None:
    """The declared distribution that a module, or the module `name` in it, is of."""
    for dotted in (*([f"{module}.{name}"] if name else ()), module):
        try:
            spec = importlib.util.find_spec(dotted)
        except ModuleNotFoundError:
            continue
        if spec is not None and spec.origin is not None:
            return FILES.get(spec.origin)
    return None


def imports() -> dict[tuple[str, str | None], str]:
    """Every import of the product that is neither its own nor the standard library's, with one place of each."""
    return {
        (found.module, found.name): where(path, found.line)
        for package in PACKAGES
        for path in sources(package)
        for found in imports_of(path)
        if found.top not in PACKAGES.keys() | NOT_NEEDED and found.top not in sys.stdlib_module_names
    }


def test_every_import_is_declared() -> None:
    found = imports()
    assert len(found) > 50
    undeclared = [
        f"{place} imports {module}" for (module, name), place in found.items() if owner(module, name) is None
    ]
    assert not undeclared


def test_everything_that_is_declared_is_imported() -> None:
    assert {owner(module, name) for module, name in imports()} >= DECLARED.keys()


@pytest.mark.parametrize("requirement", [*DECLARED.values(), *OPTIONAL], ids=str)
def test_the_constraints_fit(requirement: Requirement) -> None:
    assert requirement.specifier.contains(CONSTRAINTS[canonicalize_name(requirement.name)], prereleases=True)
