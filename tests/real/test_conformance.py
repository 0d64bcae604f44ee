"""The official MCP conformance suite against a worker and against a deployment's gateway, in both revisions.

What a worker cannot pass is listed in `conformance/`, with the reason: mostly that a scenario calls a tool, prompt or
resource of a fixed name, and a worker has exactly `send_message`, its agent's name, `get_health` and one prompt. So
that this is no excuse for the wiring, the suite also runs against the same wiring with those fixtures behind it.

At the gateway the suite is an agent with a token of its own, at `/mcp`: what it finds there is the agent's compositor,
whose one server has the fixtures. What the suite cannot say, a token and the server's name, a proxy adds.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from real.conformance import fixtures, proxy
from real.conformance.suite import Run, compare, read_list, require_suite, run_suite, worst
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet
from support.gateway.door import await_gateway, door, make_token, with_gateway
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "suite"
"""What the agent calls the server with the fixtures."""

LISTS = Path(__file__).parent / "conformance"
REVISIONS = ("2026-07-28", "2025-11-25")
TARGETS = ("worker", "fixtures", "gateway")
CASES = [(target, revision) for target in TARGETS for revision in REVISIONS]

MUST_PASS = {
    "2026-07-28": {
        "server-stateless": 19,
        "caching": 4,
        "http-header-validation": 5,
        "dns-rebinding-protection": 2,
        "tools-list": 3,
        "prompts-list": 1,
    },
    "2025-11-25": {
        "server-initialize": 1,
        "ping": 1,
        "dns-rebinding-protection": 2,
        "tools-list": 2,
        "prompts-list": 1,
    },
}
"""Scenario → how many of its checks a worker must at least pass: a run that checks nothing proves nothing."""

NEVER_LISTED = {
    "http-header-validation",
    "dns-rebinding-protection",
    "server-initialize",
    "ping",
    "tools-list",
}


SUBSCRIPTIONS = (
    "sep-2575-server-sends-subscription-ack",
    "sep-2575-server-honors-notification-filter",
    "sep-2575-server-tags-subscription-id",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
)
"""What the suite checks of subscriptions in 2026-07-28; a worker has none."""


@contextlib.contextmanager
def run_program(module: str, *arguments: str) -> Iterator[str]:
    """A server of the tests in a process of its own; its MCP endpoint."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        command = [sys.executable, "-m", module, str(listener.fileno()), *arguments]
        process = subprocess.Popen(
            command, cwd=LISTS.parents[1], pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL
        )
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            # The listener is bound: this waits in its backlog until the process serves.
            assert httpx.get(f"{origin}/livez").status_code < 500
            yield f"{origin}/mcp"
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@contextlib.contextmanager
def run_gateway(directory: Path, fixtures_url: str) -> Iterator[str]:
    """A deployment with an agent that has the fixtures for a server; where the suite finds its compositor."""
    deployment = make_deployment(directory)
    deployment.servers = {SERVER: {"transport": "http", "url": fixtures_url}}
    deployment.add("demo", servers=(SERVER,))
    limits = {"requests_per_minute": 100_000, "tenant_requests_per_minute": 100_000}
    with_gateway(deployment, limits={**limits, "subscriptions_per_minute": 100_000})
    with Fleet(deployment) as fleet:
        await_gateway(fleet)
        token = make_token(fleet, "suite", agent="demo")
        tools = door(fleet, token)
        fleet.await_that(lambda: tools.names("tools") != [], "the gateway knows the agent's server")
        port = str(deployment.document["gateway"]["port"])
        with run_program(proxy.__name__, port, token, f"{SERVER}__") as url:
            yield url


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Run]:
    """All runs of the suite; the worker answers a call after each of its own."""
    require_suite()
    done = {}
    with (
        run_worker(project(tmp_path_factory.mktemp("project"))) as worker,
        run_program(fixtures.__name__) as fixtures_url,
        run_gateway(tmp_path_factory.mktemp("f") / "fleet", fixtures_url) as gateway_url,
    ):
        urls = {"worker": worker.url, "fixtures": fixtures_url, "gateway": gateway_url}
        for target, revision in CASES:
            url = urls[target]
            output = tmp_path_factory.mktemp(f"{target}-{revision}")
            done[target, revision] = run_suite(url, revision, LISTS / f"{target}-{revision}.yaml", output)
            assert text(call(worker.url, "auto", "demo", message="still here")) == "still here"
    return done


@pytest.mark.parametrize(("target", "revision"), CASES)
def test_what_applies_passes_and_the_list_is_as_short_as_it_can_be(
    runs: dict[tuple[str, str], Run], target: str, revision: str
) -> None:
    run = runs[target, revision]
    comparison = compare(run.results, read_list(LISTS / f"{target}-{revision}.yaml"))
    assert not comparison.unexpected, run.output
    assert not comparison.stale, f"remove these from {target}-{revision}.yaml"


@pytest.mark.parametrize(("target", "revision"), CASES)
def test_the_suite_says_so_itself(runs: dict[tuple[str, str], Run], target: str, revision: str) -> None:
    run = runs[target, revision]
    assert run.status == 0, run.output[-3000:]


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_scenarios_that_matter_have_checked_something(
    runs: dict[tuple[str, str], Run], revision: str
) -> None:
    results = runs["worker", revision].results
    passed = {
        scenario: sum(status == "SUCCESS" for status in results.get(scenario, {}).values())
        for scenario in MUST_PASS[revision]
    }
    assert passed == {
        scenario: max(count, passed[scenario]) for scenario, count in MUST_PASS[revision].items()
    }


def test_subscriptions_of_the_gateway_are_all_checked(runs: dict[tuple[str, str], Run]) -> None:
    stateless = runs["gateway", "2026-07-28"].results["server-stateless"]
    assert {check: stateless.get(check) for check in SUBSCRIPTIONS} == dict.fromkeys(SUBSCRIPTIONS, "SUCCESS")
    sessions = runs["gateway", "2025-11-25"].results
    for scenario in ("resources-subscribe", "resources-unsubscribe", "server-sse-multiple-streams"):
        assert worst(sessions[scenario].values()) == "SUCCESS", scenario


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_a_worker_leaves_out_its_wiring_can_serve(
    runs: dict[tuple[str, str], Run], revision: str
) -> None:
    """Whatever is listed for a worker passes with fixtures, but for what is listed for those as well."""
    results = runs["fixtures", revision].results
    still = read_list(LISTS / f"fixtures-{revision}.yaml")
    for entry in read_list(LISTS / f"worker-{revision}.yaml"):
        scenario, _, check = entry.partition(":")
        if entry in still or scenario in still:
            continue
        # A step that only fails for want of a fixture need not be there once there is one.
        status = results[scenario].get(check) if check else None
        assert (status or worst(results[scenario].values())) == "SUCCESS", entry


@pytest.mark.parametrize(("target", "revision"), CASES)
def test_each_entry_has_a_reason(target: str, revision: str) -> None:
    reasons = read_list(LISTS / f"{target}-{revision}.yaml")
    assert [entry for entry, reason in reasons.items() if len(reason) < 20] == []
    assert not {entry.partition(":")[0] for entry in reasons} & NEVER_LISTED


def results(**scenarios: Any) -> Any:
    return scenarios


def test_a_list_that_could_be_shorter_is_found() -> None:
    passes = results(
        one={"a": "SUCCESS", "b": "SUCCESS"}, two={"c": "FAILURE", "d": "SUCCESS", "e": "SKIPPED"}
    )
    assert compare(passes, ["one", "two"]).stale == ["one"]
    assert compare(passes, ["one:a", "two:c"]).stale == ["one:a"]
    assert compare(passes, ["two:c", "two:d", "two:e", "two:gone", "gone"]).stale == [
        "two:d",
        "two:e",
        "two:gone",
        "gone",
    ]
    assert compare(passes, ["two:c"]).stale == []


def test_a_failure_that_is_not_listed_is_found() -> None:
    fails = results(one={"a": "WARNING"}, two={"c": "FAILURE", "d": "FAILURE"})
    assert compare(fails, []).unexpected == ["one:a", "two:c", "two:d"]
    assert compare(fails, ["one", "two:d"]).unexpected == ["two:c"]


def test_a_comment_reaches_as_far_as_the_next_blank_line(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("# title\n\nserver:\n  # because\n  # of this\n  - one\n  - two:a\n\n  - three\n")
    assert read_list(file) == {"one": "because of this", "two:a": "because of this", "three": ""}
