"""Reading a project's files within bounds, whatever lies there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pallas_registry.projects.code import files
from pallas_registry.projects.code.files import read_tree
from pallas_registry.projects.proposal import propose

if TYPE_CHECKING:
    from pathlib import Path


def put(directory: Path, *paths: str) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("x = 1\n")


def test_only_what_may_define_agents_is_read(tmp_path: Path) -> None:
    put(tmp_path, "a.py", "b.MD", "c.txt", "d/e.yaml", "d/__init__.py", ".fast-agent/agent-cards/f.md")
    put(tmp_path, *(f"{folder}/a.py" for folder in (".git", "node_modules", "__pycache__", ".venv", "tests")))
    put(
        tmp_path,
        "mine/pyvenv.cfg",
        "mine/lib/a.py",
        "other/fast-agent.yaml",
        "other/a.py",
        "home/.fast-agent/x.md",
    )
    tree = read_tree(tmp_path)
    assert set(tree.files) == {"a.py", "b.MD", "d/e.yaml", "d/__init__.py", ".fast-agent/agent-cards/f.md"}
    assert (tree.others, set(tree.packages), tree.cut_short) == (("home", "other"), {"d"}, None)


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "endless.py").symlink_to("/dev/zero")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nothing")
    (tmp_path / "large.py").write_bytes(b"#" * (2 << 20))
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "new\nline.py").touch()
    assert set(read_tree(tmp_path).files) == {"a.py"}


def test_too_many_files_are_cut_short_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAXIMUM_FILES", 3)
    put(tmp_path, *(f"{number}.py" for number in range(5)))
    tree = read_tree(tmp_path)
    assert len(tree.files) == 3
    said = propose(tree, "x", is_free=lambda port: True).notes.unknown
    assert said == ["what else there is: more than 3 sources, not all were looked at"]


def test_too_many_entries_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, *(f"{number}.txt" for number in range(5)), "a/b.py")
    monkeypatch.setattr(files, "MAXIMUM_ENTRIES", 3)
    assert read_tree(tmp_path).cut_short == "more than 3 files and folders"
    monkeypatch.undo()
    monkeypatch.setattr(files, "MAXIMUM_BYTES", 3)
    assert read_tree(tmp_path) == ({}, (), frozenset(), "more than 0 MB of sources")


HOSTILE = {
    "brackets": b"import fast_agent\nx = " + b"(" * 100_000,
    "signs": b"import fast_agent\nx = " + b"-" * 100_000 + b"1\n",
    "attributes": b"import fast_agent\nx" + b".a" * 100_000 + b"\n",
    "sums": b"import fast_agent\nx = 1" + b"+1" * 100_000 + b"\n",
    "calls": b"import fast_agent\nfast_agent" + b"()" * 100_000 + b"\n",
    "doubling": b"import fast_agent\na0 = 'aaaaaaaaaa'\n"
    + b"".join(b"a%d = a%d + a%d\n" % (n + 1, n, n) for n in range(200)),
    "lists": b"import fast_agent\na0 = ['a']\n"
    + b"".join(b"a%d = [a%d, *a%d]\n" % (n + 1, n, n) for n in range(200)),
    "NUL": b"import fast_agent\n\0",
    "Latin-1": b"import fast_agent\n# \xe4\n",
    "unknown encoding": b"# -*- coding: nothing -*-\nimport fast_agent\n",
    "surrogates": b"from fast_agent import FastAgent\nfast = FastAgent('\\ud800')\nfast.agent('\\ud800', '\\x1b[31m')(x)\n",  # noqa: E501
    "numbers": b"import fast_agent\nx = " + b"9" * 100_000 + b"\n",
    "nested functions": b"import fast_agent\n"
    + b"".join(b" " * n + b"def f():\n" for n in range(90))
    + b" " * 90
    + b"0\n",
    "itself": b"from a import *\nimport a\nfrom a import fast\nfrom fast_agent import FastAgent\nfast = FastAgent('x')\n"  # noqa: E501
    b"def f(): return f()\nf()\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_sources_end_in_a_proposal(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(HOSTILE[kind])
    proposal = propose(read_tree(tmp_path), "x", is_free=lambda port: True)
    assert all(str(problem).startswith("a.py") for problem in proposal.notes.mend if problem.file)
    assert len(proposal.notes.mend) <= 1


def test_hostile_cards_end_in_a_proposal(tmp_path: Path) -> None:
    (tmp_path / "cards").mkdir()
    for name, data in {
        "deep": b"[" * 50_000 + b"\n",
        "bytes": b"\xff\xfe\n",
        "alias": b"a: &a [*a]\n",
        "tag": b"a: !!python/object:os.system x\n",
        "list": b"- a\n",
        "types": b"type: [agent]\nname: {a: b}\nagents: 3\nservers: {x: y}\nmcp_connect: [3, {target: [a]}]\n",
    }.items():
        (tmp_path / "cards" / f"{name}.md").write_bytes(b"---\n" + data + b"---\nbody\n")
    proposal = propose(read_tree(tmp_path), "x", is_free=lambda port: True)
    assert proposal.entries == []
    assert {problem.file for problem in proposal.notes.mend} >= {"cards/deep.md", "cards/bytes.md"}


def test_hostile_settings_are_left_to_others(tmp_path: Path) -> None:
    for data in (
        b"[" * 50_000,
        b"mcp: {servers: [a]}",
        b"mcp: {servers: {a: [b], c: {url: 'http://[x:9/', args: {}}}}",
        b"3",
    ):
        (tmp_path / "fastagent.config.yaml").write_bytes(data)
        (tmp_path / "a.py").write_text(
            "from fast_agent import FastAgent\nfast = FastAgent('x')\nfast.agent('x', servers=['a', 'c'])(x)\n"
        )
        assert len(propose(read_tree(tmp_path), "x", is_free=lambda port: True).entries) == 1


def test_files_that_import_each_other_in_a_long_row(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"m{number}.py").write_text(f"import fast_agent\nimport m{number + 1}\n")
    (tmp_path / "m200.py").write_text(
        "from fast_agent import FastAgent\nfast = FastAgent('x')\nfast.agent('x')(print)\nimport m0\n"
    )
    proposal = propose(read_tree(tmp_path), "x", is_free=lambda port: True)
    assert [entry.source.value for entry in proposal.entries] == ["m200.py"]
