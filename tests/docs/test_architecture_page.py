"""`docs/architecture.md` has the rooms of the three large packages in the order in which they import each other."""

from __future__ import annotations

import re

import pytest

from support.repository import ROOT
from support.sources import modules, uses, where

PAGE = (ROOT / "docs/architecture.md").read_text()


def layers(package: str) -> list[list[str]]:
    """The page's rooms of a package, from those that know least: rooms of a layer stand between two arrows."""
    found = re.search(rf"^{package}   (.*?)(?=^\w|^```)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    listed = re.sub(r"\(.*?\)", "", found[1])
    return [re.findall(r"\w+", layer) for layer in listed.split("←") if layer.strip()]


@pytest.mark.parametrize("package", ["pallas_supervisor", "pallas_worker", "pallas_gateway"])
def test_the_page_has_every_room_and_none_imports_a_later_one(package: str) -> None:
    place = {room: index for index, layer in enumerate(layers(package)) for room in layer}
    known = {name: path for name, path in modules().items() if name.startswith(f"{package}.")}
    inner = {name: path for name, path in known.items() if name.count(".") > 1}
    assert place.keys() == {name.split(".")[1] for name in inner}
    wrong = [
        f"{where(path, line)} imports {used}"
        for name, path in inner.items()
        for used, line in uses(path, inner)
        if place[used.split(".")[1]] > place[name.split(".")[1]]
    ]
    assert not wrong
