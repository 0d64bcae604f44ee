"""Every block of code in the documentation is what its language says."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml

from pallas_common.problems import ConfigurationError
from support.data.agents_text import parse
from support.documents.blocks import Block, blocks_of
from support.documents.pages import pages
from support.repository import ROOT

SCHEMA = json.loads((ROOT / "registry/pallas_registry/deployment/agents.schema.json").read_text())
AS_TEXT = {"text", "mermaid", "promql"}
"""Languages of which nothing is checked here."""


@pytest.mark.parametrize("page", pages())
def test_every_block_is_what_its_language_says(page: str) -> None:
    text = (ROOT / page).read_text()
    blocks = blocks_of(ROOT / page)
    assert text.count("```") == 2 * len(blocks), "a fence is not closed, or has something odd behind it"
    prose = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<=\n\n)    \S", prose), "a block without fences"
    for block in blocks:
        assert block.info == "" or block.not_run, f"{page}:{block.line}: {block.info}"
        wrong = fault(block)
        assert wrong is None, f"{page}:{block.line}: {wrong}"


def fault(block: Block) -> str | None:
    """What is wrong with a block, if anything."""
    try:
        match block.language:
            case "bash":
                done = subprocess.run(
                    ["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False
                )
                return done.stderr or None
            case "yaml":
                check_yaml(block.text)
            case "json":
                json.loads(block.text)
            case "python":
                compile(block.text, "page", "exec")
            case language if language not in AS_TEXT:
                return f"{language or 'none'} is no language of a block"
    except (
        ValueError,
        SyntaxError,
        yaml.YAMLError,
        jsonschema.ValidationError,
        ConfigurationError,
        AssertionError,
    ) as error:
        return str(error)
    return None


def check_yaml(text: str) -> None:
    """Raises what is wrong with it; what has agents is an agents.yaml."""
    document: Any = yaml.safe_load(text)
    assert isinstance(document, dict)
    if "agents" in document:
        parse(text)
        jsonschema.Draft7Validator(SCHEMA).validate(document)


@pytest.mark.parametrize(
    ("language", "text", "is_good"),
    [
        ("bash", "if true; then", False),
        ("yaml", "name: x\nagents:\n  a: {module: m, port: 24201}\n", True),
        ("yaml", "name: x\nagents:\n  a: {module: m, prot: 24201}\n", False),
        ("yaml", "- a list", False),
        ("json", "{", False),
        ("python", "def", False),
        ("console", "$ pallas", False),
        ("", "pallas", False),
    ],
)
def test_a_wrong_block_is_found(language: str, text: str, is_good: bool) -> None:
    assert (fault(Block(language, "", text, 1)) is None) is is_good


def test_the_index_has_every_page_of_its_folder() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text()))
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
