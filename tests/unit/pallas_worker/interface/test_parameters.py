"""The parameters of a request, refused as all its fields are."""

from __future__ import annotations

import pytest

from pallas_worker.interface.errors import ArgumentError
from pallas_worker.interface.parameters import parse_parameters


def test_what_is_refused_is_told_by_its_field() -> None:
    with pytest.raises(ArgumentError, match=r"^stop\[1\]: must be a string, not a number$") as refused:
        parse_parameters({"stop": ["a", 1]})
    assert refused.value.field == "stop[1]"


def test_what_fits_is_taken() -> None:
    parsed = parse_parameters({"temperature": 1})
    assert parsed is not None
    assert parsed.values == {"temperature": 1}
