"""Documents that are made from code are what the code says, and `scripts/generate` tells where they are not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from support.repository import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = (
    "docs/states.md",
    "docs/openapi.json",
    "docs/parameters.md",
    "deploy/grafana/pallas.json",
    "registry/pallas_registry/deployment/agents.schema.json",
    "registry/pallas_registry/resources/resources.schema.json",
    *(f"deploy/man/{name}.1" for name in ("pallas", "pallasctl")),
)


def generate(*arguments: str, root: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the script's program, with another folder to write to where one is named."""
    program = (
        "import sys; from pathlib import Path; from scripts.lib import generate; "
        "sys.exit(generate.main(sys.argv[2:], Path(sys.argv[1] or generate.ROOT)))"
    )
    command = [sys.executable, "-c", program, root, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_every_generated_document_is_what_the_code_says() -> None:
    checked = generate("--check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_it_names_what_differs_and_what_to_run_and_writes_only_that(tmp_path: Path) -> None:
    for name in DOCUMENTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / DOCUMENTS[0]).write_text("another text")
    checked = generate("--check", root=str(tmp_path))
    assert checked.returncode == 1
    for name, line in zip(DOCUMENTS, checked.stderr.splitlines(), strict=True):
        assert name in line
        assert "scripts/generate" in line
    assert (tmp_path / DOCUMENTS[0]).read_text() == "another text"
    assert generate(root=str(tmp_path)).returncode == 0
    for name in DOCUMENTS:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()
    assert generate(root=str(tmp_path)).stdout == ""


def test_another_argument_is_refused() -> None:
    assert generate("--write").returncode == 2
