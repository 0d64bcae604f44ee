"""The official MCP conformance suite: run it against a URL, read its results, compare them with a list.

Knows the suite's options and files; must not know what serves the URL.

A list is a file in the suite's own format (`--expected-failures`): entries `scenario` or `scenario:check`, here each
under a comment that says why it does not apply; a blank line ends a comment's reach.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).parents[3]
PEERS = ROOT / ".peers"
NODE = PEERS / "node"
SUITE = PEERS / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

TIMEOUT = 300.0
"""Seconds for one run of the suite: it only bounds a failing test."""

FAILED = ("FAILURE", "WARNING")
"""What counts as failed, by the suite's own rule for its lists, worst first."""

Results = dict[str, dict[str, str]]
"""Scenario → check → the worst status that it had."""


@dataclass(frozen=True)
class Run:
    """One run of the suite."""

    results: Results
    status: int
    """Its exit status: 0 if it found the list of expected failures to be right."""
    output: str


@dataclass(frozen=True)
class Comparison:
    """How a run's results differ from a list."""

    unexpected: list[str]
    """What failed and is not listed."""
    stale: list[str]
    """What is listed and did not fail: the list could be shorter."""


def require_suite() -> None:
    """Skip the test where the suite is not installed, or fail it where it has to be."""
    if NODE.exists() and SUITE.exists() and (PEERS / "stamp").exists():
        return
    reason = "needs the MCP conformance suite and a Node for it: scripts/test installs both where npm is"
    if os.environ.get("PALLAS_REQUIRE_PEERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def run_suite(url: str, revision: str, listed: Path, output: Path) -> Run:
    """Run all server scenarios of a revision of the specification, those that it does not score included."""
    command = [str(NODE), str(SUITE), "server", "--url", url, "--requirements", revision]
    command += ["--expected-failures", str(listed), "--output-dir", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return Run(read_results(output), done.returncode, done.stdout + done.stderr)


def read_results(folder: Path) -> Results:
    """What the suite wrote: one folder for each scenario, `server-SCENARIO-TIME`."""
    results: Results = {}
    for file in sorted(folder.glob("server-*/checks.json")):
        name = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        assert name, file
        checks = results.setdefault(name[1], {})
        for check in json.loads(file.read_text()):
            checks[check["id"]] = worst([check["status"], checks.get(check["id"], check["status"])])
    return results


def worst(statuses: Iterable[str]) -> str:
    """Of several outcomes of one check the one that counts."""
    order = [*FAILED, "SUCCESS"]
    return min(statuses, key=lambda status: order.index(status) if status in order else len(order))


def compare(results: Results, listed: Iterable[str]) -> Comparison:
    """Compare a run with a list, more strictly than the suite does.

    An entry whose check was not made is stale, too, and scenarios that the suite does not score count like others.
    """
    failed = {
        scenario: {check for check, status in checks.items() if status in FAILED}
        for scenario, checks in results.items()
    }
    excused: set[tuple[str, str]] = set()
    stale = []
    for entry in listed:
        scenario, _, check = entry.partition(":")
        now = {it for it in failed.get(scenario, set()) if check in ("", it)}
        excused |= {(scenario, it) for it in now}
        if not now:
            stale.append(entry)
    unexpected = [
        f"{name}:{it}" for name, its in failed.items() for it in sorted(its) if (name, it) not in excused
    ]
    return Comparison(unexpected, stale)


def read_list(file: Path) -> Mapping[str, str]:
    """The entries of a list, each with its reason; an empty one where there is none.

    The file is read twice: by YAML, as the suite does, and line by line, because a reason is a comment.
    """
    entries = yaml.safe_load(file.read_text())["server"] or []
    reasons: dict[str, str] = {}
    reason, follows = "", False
    for line in map(str.strip, file.read_text().splitlines()):
        if line.startswith("#"):
            said = line.removeprefix("#").strip()
            reason, follows = (f"{reason} {said}", True) if follows else (said, True)
            continue
        follows = False
        if not line:
            reason = ""
        elif line.startswith("- "):
            reasons[line.removeprefix("- ").split()[0]] = reason
    assert list(reasons) == [str(entry) for entry in entries], (
        f"{file}: one plain entry a line, and none twice"
    )
    return reasons
