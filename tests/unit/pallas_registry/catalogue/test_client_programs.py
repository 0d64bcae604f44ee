"""The programs for the SDKs, as text; that they work is shown in tests/real/test_clients.py."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence

import pytest

from pallas_registry.catalogue.client_programs import (
    python_program,
    python_program_v1,
    typescript_program,
    typescript_program_v1,
)

Program = Callable[[Sequence[tuple[str, str]]], str]

ONE = [("research", "http://localhost:24201/mcp")]
NAME, URL = 'it\'s "a" `b` ${c} \\ {d} \n é \u2028 \U0001f600', "http://x/'\"\\{}\n${y}\U0001f600"
SEVERAL = [*ONE, (NAME, URL)]


@pytest.mark.parametrize("program", [python_program, python_program_v1])
def test_python_has_the_names_and_urls_to_the_letter(program: Program) -> None:
    assigned = [node for node in ast.parse(program(SEVERAL)).body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(assigned[0].value) == dict(SEVERAL)
    (url, *_) = [node for node in ast.parse(program(ONE)).body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(url.value) == ONE[0][1]


@pytest.mark.parametrize("program", [typescript_program, typescript_program_v1])
def test_typescript_has_the_names_and_urls_as_strings_of_json(program: Program) -> None:
    table = re.search(r"^const agents = (\{\n.*?\n\});$", program(SEVERAL), re.MULTILINE | re.DOTALL)
    assert table
    assert json.loads(table[1].replace(",\n}", "\n}")) == dict(SEVERAL)
    assert f"const url = {json.dumps(ONE[0][1])};" in program(ONE)


@pytest.mark.parametrize(
    "program", [python_program, python_program_v1, typescript_program, typescript_program_v1]
)
def test_a_program_for_one_agent_has_no_loop(program: Program) -> None:
    assert "for (const" not in program(ONE)
    assert "for name," not in program(ONE)
