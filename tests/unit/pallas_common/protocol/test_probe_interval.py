"""How often workers probe: the variable, or what holds without it."""

from __future__ import annotations

import pytest

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.probe_interval import probe_interval


def test_the_interval_is_15_seconds_or_what_the_variable_says() -> None:
    assert probe_interval({}) == probe_interval({"PALLAS_PROBE_INTERVAL": ""}) == 15.0
    assert probe_interval({"PALLAS_PROBE_INTERVAL": "2.5"}) == 2.5
    for wrong in ("often", "0", "nan", "-1", "1e9"):
        with pytest.raises(ConfigurationError) as raised:
            probe_interval({"PALLAS_PROBE_INTERVAL": wrong})
        assert "PALLAS_PROBE_INTERVAL" in str(raised.value.problems[0])
