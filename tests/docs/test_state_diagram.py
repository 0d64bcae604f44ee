"""docs/states.md says what the table says."""

from __future__ import annotations

import importlib.util

from support.repository import ROOT


def test_the_page_is_what_the_table_says() -> None:
    specification = importlib.util.spec_from_file_location(
        "state_diagram", ROOT / "scripts/lib/state_diagram.py"
    )
    assert specification is not None
    assert specification.loader is not None
    diagram = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(diagram)
    assert diagram.PAGE.read_text() == diagram.page(), "run scripts/diagram"
