"""Resources that are wrong: each is refused with its place and the way to mend it, and nothing else moves."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from support.faults.bad_resources import GOOD, bad_resources, document_of
from support.fleet.deployment import make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path


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
        bad = list(bad_resources())
        assert len(bad) >= 200
        # Each in a file of its own, and with a name of its own, so that none is refused for what another says.
        files = [
            {"file": f"{number}.json", "text": text.replace('"bad"', f'"bad-{number}"')}
            for number, (_, text) in enumerate(bad)
        ]
        answer = fleet.post("/v1/resources", files=files)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert not [each for each in body["results"] if each["outcome"] != "refused"]
        found = defaultdict(list)
        for problem in (*body["problems"], *(p for each in body["results"] for p in each["problems"])):
            place, _, said = str(problem).partition(": ")
            assert ";" in said, problem
            found[place.partition(":")[0]].append(problem)
        assert not [what for number, (what, _) in enumerate(bad) if f"{number}.json" not in found]
        assert _all(fleet) == before


def _all(fleet: Fleet) -> object:
    """All resources, and which processes run."""
    kinds = {kind: fleet.get(f"/v1/resources/{kind}").json()["items"] for kind in GOOD if kind != "agent"}
    agents = [(agent["name"], agent["state"], agent["pid"]) for agent in fleet.status()["agents"]]
    files = sorted((path, path.read_bytes()) for path in fleet.state.rglob("*") if path.is_file())
    return kinds, agents, files
