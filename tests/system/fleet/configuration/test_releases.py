"""A deployment behind a symbolic link: what the link leads to now is what a reload and a restart take."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import yaml

from support.fleet.deployment import Deployment, make_deployment
from support.fleet.fleet import Fleet

if TYPE_CHECKING:
    from pathlib import Path

TELLING = "import mine\nfrom pathlib import Path\nPath({told!r}).write_text(mine.RELEASE)\n"


def test_a_link_that_leads_elsewhere_is_followed(tmp_path: Path) -> None:
    first, second, link, told = (tmp_path / name for name in ("first", "second", "current", "told.txt"))
    deployment = make_deployment(first, "one")
    deployment.document["preload"] = ["mine"]
    module = first / "agents" / "one.py"
    module.write_text(TELLING.format(told=str(told)) + module.read_text())
    (first / "mine.py").write_text("RELEASE = 'first'\n")
    deployment.write()
    shutil.copytree(first, second)
    (second / "mine.py").write_text("RELEASE = 'second'\n")
    document = yaml.safe_load((second / "agents.yaml").read_text())
    document["agents"]["one"]["description"] = "Of the second release"
    (second / "agents.yaml").write_text(yaml.safe_dump(document))
    link.symlink_to(first)

    own = {"PALLAS_RUNTIME_DIR": tmp_path / "run", "PALLAS_STATE_DIR": tmp_path / "state"}
    environment = {name: str(path) for name, path in own.items()}
    fleet = Fleet(
        Deployment(link, deployment.document),
        env={**environment, "PALLAS_LOG_FILE": str(tmp_path / "log" / "pallas.log"), "PWD": str(link)},
    )
    fleet.runtime, fleet.log_file = tmp_path / "run", tmp_path / "log" / "pallas.log"
    with fleet:
        fleet.wait()
        assert told.read_text() == "first"
        link.unlink()
        link.symlink_to(second)
        (first / "stderr.txt").rename(second / "stderr.txt")
        shutil.rmtree(first)
        answer = fleet.ctl("reload")
        assert answer.returncode == 0, answer.stderr
        assert fleet.ctl("restart", "one").returncode == 0
        assert told.read_text() == "second"
        assert fleet.get("/v1/status").json()["file"] == str(link / "agents.yaml")
        assert "Of the second release" in fleet.ctl("describe", "one").stdout
