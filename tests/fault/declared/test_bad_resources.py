"""Resources that are wrong: each is refused with its place and the way to mend it, and nothing else moves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.faults.bad_resources import GOOD, bad_resources, document_of
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

FILE = "bad.json"


def test_bad_resources_are_refused_with_place_and_remedy_and_nothing_moves(tmp_path: Path) -> None:
    deployment = make_deployment(tmp_path / "fleet", "steady")
    with Fleet(deployment) as fleet:
        fleet.wait()
        good = [document_of(kind, spec, "there") for kind, spec in GOOD.items() if kind != "agent"]
        good.append(document_of("agent", {"model": "passthrough"}, "warm"))
        applied = fleet.post(
            "/v1/resources", files=[{"file": "good.json", "text": json.dumps({"items": good})}]
        )
        assert applied.status_code == 200, applied.text
        assert {result["outcome"] for result in applied.json()["results"]} == {"created"}, applied.text
        assert fleet.ctl("start", "warm").returncode == 0
        before = _all(fleet)
        refused = 0
        for what, text in bad_resources():
            answer = fleet.post("/v1/resources", files=[{"file": FILE, "text": text}])
            assert answer.status_code == 200, (what, answer.text)
            body = answer.json()
            problems = [*body["problems"], *(p for result in body["results"] for p in result["problems"])]
            assert problems, (what, answer.text)
            assert not [r for r in body["results"] if r["outcome"] != "refused"], (what, answer.text)
            for problem in problems:
                place, _, said = str(problem).partition(": ")
                assert place.startswith(FILE), (what, problem)
                assert ";" in said, (what, problem)
            refused += 1
        assert refused >= 200
        assert _all(fleet) == before


def _all(fleet: Fleet) -> object:
    """All resources, and which processes run."""
    kinds = {kind: fleet.get(f"/v1/resources/{kind}").json()["items"] for kind in GOOD if kind != "agent"}
    agents = [(agent["name"], agent["state"], agent["pid"]) for agent in fleet.status()["agents"]]
    files = sorted((path, path.read_bytes()) for path in fleet.state.rglob("*") if path.is_file())
    return kinds, agents, files
