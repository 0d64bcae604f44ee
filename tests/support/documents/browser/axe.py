"""axe-core's rules, asked of a page in a browser: what in it keeps people out.

Knows where scripts/test installs it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.repository import ROOT

if TYPE_CHECKING:
    from support.documents.browser.browser import Page

AXE = ROOT / ".peers" / "node_modules" / "axe-core" / "axe.min.js"


def axe() -> str:
    """The rules as a script; without them the test is not run, or fails where peers are required."""
    if not AXE.exists():
        reason = "not run: needs axe-core: scripts/test installs it where npm is"
        if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return AXE.read_text()


def violations(page: Page, least: int) -> list[tuple[str, list[str]]]:
    """Each rule that the page breaks, with the elements that do.

    Args:
        least: how many rules it has to keep: so many there were to look at.
    """
    page.evaluate(axe() + "; 0")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(found["passes"]) >= least, "it has looked"
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]
