"""The colours of the page can be told apart, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pallas_supervisor.http import page

if TYPE_CHECKING:
    from collections.abc import Mapping


STYLE = (Path(page.__file__).parent / "static" / "page.css").read_text()


def palettes() -> dict[str, Mapping[str, str]]:
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    )
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", ["light", "dark"])
def test_words_stand_out_from_every_ground(palette: str) -> None:
    colours = palettes()[palette]
    for word in ("ink", "soft", "accent", "good", "warn", "bad", "idle", "busy"):
        for ground in ("ground", "surface", "faint"):
            light, dark = sorted((luminance(colours[word]), luminance(colours[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (word, ground)
