"""The table of what becomes of parameters: complete, and without words that nothing understands."""

from __future__ import annotations

import pytest
from fast_agent.llm.provider_types import Provider
from fast_agent.types import RequestParams

from pallas_common.protocol.agent.parameters import PARAMETERS
from pallas_worker.agent.parameters.fates import FAMILIES, HINTS, NAMES, family_of


def test_every_parameter_has_a_row() -> None:
    assert {name.removeprefix("named ") for name in NAMES} == {*PARAMETERS, "extra"} - {
        "max_completion_tokens"
    }


@pytest.mark.parametrize("provider", Provider, ids=lambda provider: provider.config_name)
@pytest.mark.parametrize("reasons", [False, True])
def test_every_provider_of_fast_agent_has_a_family(provider: Provider, reasons: bool) -> None:
    assert provider.config_name in {name for family in FAMILIES.values() for name in family.providers}
    family = family_of(provider.config_name, reasons=reasons)
    assert provider.config_name in family.providers or family is FAMILIES["chat-reasoning"]


def test_a_provider_that_nobody_knows_is_given_little() -> None:
    assert family_of("new", reasons=False) is FAMILIES["copilot"]


@pytest.mark.parametrize("key", FAMILIES)
def test_hints_are_never_refused_and_others_never_left_out(key: str) -> None:
    for name in NAMES:
        how = FAMILIES[key].fate(name).how
        assert how != ("refused" if name in HINTS else "ignored")
        if how == "field" and name != "stop":
            assert name in RequestParams.model_fields
