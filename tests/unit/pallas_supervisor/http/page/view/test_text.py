"""How figures are written."""

from __future__ import annotations

import pytest

from pallas_supervisor.http.page.view import text


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (text.rate(0), "0"),
        (text.rate(0.01), "<0.1"),
        (text.rate(4.21), "4.2"),
        (text.rate(1240.4), "1\u202f240"),
        (text.compact(999), "999"),
        (text.compact(12_345), "12.3\u202fk"),
        (text.compact(999_999), "1\u202fM"),
        (text.memory(None), "–"),
        (text.memory(87_031_808), "83 MiB"),
        (text.memory(1_331_439_862), "1.24 GiB"),
        (text.several(1, "agent"), "1 agent"),
        (text.several(2, "agent"), "2 agents"),
    ],
)
def test_figures_read_as_people_write_them(shown: str, wanted: str) -> None:
    assert shown == wanted
