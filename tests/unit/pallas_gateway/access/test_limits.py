"""How much a principal and its tenant may take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pallas_common.protocol.gateway import Limits
from pallas_gateway.access.limits import Limiter, LimitExceededError
from pallas_gateway.identity.gcra import Rates
from pallas_gateway.identity.principal import Principal

ADA = Principal(id="ada", name="Ada", role="human")
BOB = Principal(id="bob", name="Bob", role="human")
WORKER = Principal(id="worker:j/1", name="j", role="agent", agent="j", concurrent=2)


def refused(limiter: Limiter, principal: Principal) -> tuple[str, float]:
    with pytest.raises(LimitExceededError) as raised:
        limiter.enter(principal)
    return raised.value.kind, raised.value.retry_after


def test_a_minutes_worth_at_once_and_then_one_after_the_other() -> None:
    now = 50.0
    limiter = Limiter(Limits(requests_per_minute=60, concurrent=1000), lambda: now)
    for _ in range(60):
        limiter.enter(ADA)()
    kind, wait = refused(limiter, ADA)
    assert kind == "rate"
    assert wait == pytest.approx(1)
    now += wait
    limiter.enter(ADA)()
    refused(limiter, ADA)
    limiter.enter(BOB)()
    now += 3600
    for _ in range(60):
        limiter.enter(ADA)()
    refused(limiter, ADA)


def test_places_are_given_back_once() -> None:
    limiter = Limiter(Limits(concurrent=2))
    first, second = limiter.enter(ADA), limiter.enter(ADA)
    assert refused(limiter, ADA)[0] == "concurrency"
    first()
    first()
    third = limiter.enter(ADA)
    assert refused(limiter, ADA)[0] == "concurrency"
    second()
    third()
    assert not limiter._running
    assert not limiter._tenant_running


def test_what_goes_on_by_itself_keeps_its_place_and_is_never_refused_one() -> None:
    limiter = Limiter(Limits(concurrent=1, tenant_concurrent=1))
    request = limiter.enter(ADA)
    turn = limiter.hold(ADA)
    request()
    assert refused(limiter, ADA)[0] == "concurrency"
    assert refused(limiter, BOB)[0] == "tenant_concurrency"
    turn()
    turn()
    limiter.enter(ADA)()
    assert not limiter._tenant_running


def test_all_of_a_tenant_together_and_nobody_of_another() -> None:
    limiter = Limiter(Limits(tenant_concurrent=1))
    limiter.enter(ADA)
    assert refused(limiter, BOB)[0] == "tenant_concurrency"
    limiter.enter(replace(BOB, tenant="other"))
    limiter = Limiter(Limits(tenant_requests_per_minute=2))
    limiter.enter(ADA)()
    limiter.enter(BOB)()
    assert refused(limiter, ADA)[0] == "tenant_rate"


def test_what_the_tenant_refuses_is_not_counted_for_the_principal() -> None:
    now = 0.0
    limiter = Limiter(Limits(requests_per_minute=2, tenant_requests_per_minute=1), lambda: now)
    limiter.enter(ADA)()
    for _ in range(5):
        assert refused(limiter, ADA)[0] == "tenant_rate"


def test_an_agents_own_token_has_places_and_no_rate() -> None:
    limits = Limits(concurrent=1, requests_per_minute=1, tenant_requests_per_minute=1, tenant_concurrent=1)
    limiter = Limiter(limits)
    for _ in range(50):
        limiter.enter(WORKER)()
    first = limiter.enter(WORKER)
    limiter.enter(WORKER)
    assert refused(limiter, WORKER)[0] == "concurrency"
    limiter.enter(ADA)
    first()
    limiter.enter(WORKER)


def test_each_turn_of_an_agent_may_call_several_tools_at_once() -> None:
    limiter = Limiter(Limits(concurrent=3))
    single = replace(WORKER, concurrent=1)
    for _ in range(3):
        limiter.enter(single)
    assert refused(limiter, single)[0] == "concurrency"
    for _ in range(3):  # the second turn's
        limiter.enter(WORKER)
    assert refused(limiter, WORKER)[0] == "concurrency"


def test_rates_forget_keys_that_have_nothing_outstanding() -> None:
    rates = Rates(60, most_keys=100)
    for number in range(500):
        assert rates.take(str(number), 0.0) == 0
    assert len(rates) <= 101
    rates.take("new", 1000.0)
    for number in range(200):
        rates.take(str(number % 3), 1000.0 + number)
    assert len(rates) <= 4
