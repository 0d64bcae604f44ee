"""`pallasctl edit`: an editor that is a script, and a supervisor that takes or refuses what it writes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pallasctl.verbs.resources.edit import with_notes

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from fakes.control_server import FakeControl

RESOURCE: dict[str, Any] = {
    "apiVersion": "pallas/v1",
    "kind": "agent",
    "metadata": {"name": "deployer", "uid": "0b2f", "version": 3, "resourceVersion": "0123456789abcdef"},
    "spec": {"description": "old", "systemPrompt": "a\nb\n"},
    "status": {"state": "idle"},
}
SHOWN = """\
apiVersion: pallas/v1
kind: agent
metadata:
  name: deployer
  resourceVersion: 0123456789abcdef
spec:
  description: old
  systemPrompt: |
    a
    b
"""


class Editor:
    """Does one edit each time that it is started, the last one again and again; keeps what it was given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._script = folder / "editor.py"
        monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
        (folder / "tmp").mkdir()
        monkeypatch.setattr("tempfile.tempdir", None)
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("EDITOR", f"{sys.executable} {self._script}")

    def will(self, *edits: str) -> None:
        """Each is a statement with the `text` of the file."""
        self._script.write_text(
            "import os, pathlib, sys\n"
            "file = pathlib.Path(sys.argv[1])\n"
            f"seen = pathlib.Path({str(self._folder)!r}, 'seen')\n"
            "seen.mkdir(exist_ok=True)\n"
            "number = len(list(seen.iterdir()))\n"
            "text = file.read_text()\n"
            "(seen / f'{number}').write_text(text)\n"
            "assert file.stat().st_mode & 0o777 == 0o600\n"
            f"edits = {edits!r}\n"
            "exec(edits[min(number, len(edits) - 1)])\n"
            "file.write_text(text)\n"
        )

    @property
    def seen(self) -> list[str]:
        """The texts that it was started with."""
        return [path.read_text() for path in sorted((self._folder / "seen").iterdir())]

    @property
    def left(self) -> list[Path]:
        """Files that are still there."""
        return list((self._folder / "tmp").iterdir())


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    return Editor(tmp_path, monkeypatch)


def edit(fake: FakeControl) -> Result:
    fake.answer("/v1/resources/agent/deployer", RESOURCE)
    return fake.run("edit", "agent", "deployer")


def answer(fake: FakeControl, outcome: str, *problems: str) -> None:
    result = {"resource": "agent/deployer", "outcome": outcome, "problems": list(problems)}
    fake.answer("/v1/resources", {"results": [result], "problems": []})


def sent(fake: FakeControl) -> list[dict[str, str]]:
    return [body["files"][0] for method, _, body in fake.requests if method == "POST"]


def test_what_is_changed_is_applied(fake: FakeControl, editor: Editor) -> None:
    editor.will("text = text.replace('old', 'new')")
    answer(fake, "configured")
    result = edit(fake)
    assert (result.exit_code, result.output) == (0, "agent/deployer configured\n")
    assert editor.seen == [SHOWN]
    assert sent(fake)[0]["text"] == SHOWN.replace("old", "new")
    assert editor.left == []


def test_what_is_left_as_it_was_changes_nothing(fake: FakeControl, editor: Editor) -> None:
    editor.will("pass")
    result = edit(fake)
    assert (result.exit_code, result.output) == (0, "agent/deployer unchanged\n")
    assert sent(fake) == []
    assert editor.left == []


def test_what_is_refused_comes_back_with_what_is_wrong_above_it(fake: FakeControl, editor: Editor) -> None:
    editor.will("text = text.replace('old', 'worse'); text = text.replace('spec', 'spce')", "pass")
    problem = "line is put in"
    fake.answer("/v1/resources", {"results": [], "problems": [problem]})
    result = edit(fake)
    assert result.exit_code == 1
    [kept] = editor.left
    assert editor.seen[1].endswith(SHOWN.replace("old", "worse").replace("spec", "spce"))
    assert editor.seen[1].startswith(
        f"#! This was refused. Mend it, or leave it as it is to end here.\n#! {problem}\n#!\napiVersion: "
    )
    assert result.stderr == (
        "pallasctl: agent/deployer is not changed: the text was left as it was refused\n"
        f"  {problem}\n  your text is kept: {kept}\n"
    )
    assert kept.read_text() == editor.seen[1]


def test_an_editor_that_changes_the_notes_alone_comes_to_an_end(fake: FakeControl, editor: Editor) -> None:
    editor.will("text = text.replace('old', 'older')", "text = text.replace('#!', '#! !')")
    answer(fake, "refused", "say old or new")
    assert edit(fake).exit_code == 1
    assert len(sent(fake)) == 1


def test_lines_are_told_as_they_are_in_the_editor() -> None:
    body = SHOWN.replace("description", "descr")
    first = with_notes(body, ["/tmp/x.yaml:7: spec.descr: is unknown", "x: y"], "/tmp/x.yaml")
    assert first.splitlines()[1:4] == ["#! line 11: spec.descr: is unknown", "#! x: y", "#!"]
    assert first.splitlines()[10] == "  descr: old"
    second = with_notes(first, ["/tmp/x.yaml:11: spec.descr: is unknown"], "/tmp/x.yaml")
    assert second.splitlines()[1] == "#! line 10: spec.descr: is unknown"
    assert second.splitlines()[9] == "  descr: old"


def test_mended_at_the_second_try(fake: FakeControl, editor: Editor) -> None:
    editor.will("text = text.replace('old', 'worse')", "text = text.replace('worse', 'good')")

    def judged(body: dict[str, Any]) -> dict[str, Any]:
        bad = "worse" in body["files"][0]["text"]
        result = {"resource": "agent/deployer", "outcome": "refused" if bad else "configured"}
        return {"results": [result | {"problems": ["it is bad"] if bad else []}], "problems": []}

    fake.answer("/v1/resources", judged)
    result = edit(fake)
    assert (result.exit_code, result.stdout) == (0, "agent/deployer configured\n")
    assert len(sent(fake)) == 2
    assert editor.left == []


def test_somebody_else_has_changed_it(fake: FakeControl, editor: Editor) -> None:
    editor.will("text = text.replace('old', 'mine')")
    problem = "x: metadata.resourceVersion: it has changed since: spec.description; get it again"
    answer(fake, "refused", problem)
    result = edit(fake)
    [kept] = editor.left
    assert result.exit_code == 1
    assert result.stderr == (
        "pallasctl: agent/deployer is not changed: somebody else has changed it meanwhile\n"
        f"  {problem}\n  your text is kept: {kept}\n"
    )
    assert "mine" in kept.read_text()
    assert len(editor.seen) == 1


@pytest.mark.parametrize(
    ("edit_", "said"),
    [
        ("sys.exit(3)", "ended with status 3; nothing is changed"),
        ("file.unlink(); sys.exit(0)", "the editor has removed"),
    ],
)
def test_an_editor_that_fails(fake: FakeControl, editor: Editor, edit_: str, said: str) -> None:
    editor.will(edit_)
    result = edit(fake)
    assert result.exit_code == 1
    assert said in result.stderr
    assert sent(fake) == []
    assert editor.left == []


def test_no_editor(fake: FakeControl, editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nowhere/vi -f")
    result = edit(fake)
    assert result.exit_code == 1
    assert (
        "the editor '/nowhere/vi -f' cannot be started: No such file or directory; set EDITOR"
        in result.stderr
    )
    assert editor.left == []


def test_what_is_not_there(fake: FakeControl) -> None:
    result = fake.run("edit", "agent", "x")
    assert result.exit_code == 2
    assert "there is no agent 'x'" in result.stderr
