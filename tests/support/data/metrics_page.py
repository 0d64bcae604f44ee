"""`docs/metrics.md` as data: series → its type, its labels and its help."""

from __future__ import annotations

import re

from support.repository import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()
ROWS = {
    cells[0].strip("`"): (cells[1], frozenset(re.findall(r"`(\w+)`", cells[2])), cells[3])
    for cells in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| `")
    )
}
