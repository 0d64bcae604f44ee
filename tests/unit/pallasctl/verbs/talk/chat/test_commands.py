"""Commands of a chat: what each does, and what is said of mistakes."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from fakes.chat.backend import FakeBackend
from pallas_common.protocol.agent.images import MAX_IMAGES
from pallas_control.mcp.messages import ImageDocument
from pallasctl.verbs.talk.chat.commands import COMMANDS, ChatCommands, is_command
from pallasctl.verbs.talk.chat.session import Session
from support.data.image_data import CONTENT, PNG

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = ImageDocument(data=PNG, mime_type="image/png")


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend(with_threads=True)


@pytest.fixture
def session(backend: FakeBackend) -> Session:
    return Session(backend)


@pytest.fixture
def commands(session: Session) -> ChatCommands:
    return ChatCommands(session)


def test_what_is_a_command() -> None:
    assert is_command("/help")
    assert not is_command(" /help")
    assert not is_command("/usr/bin/x:\nwhat is this?")


@pytest.mark.parametrize(("columns", "longest"), [("80", 80), ("40", 40)])
def test_help_names_every_command(
    commands: ChatCommands,
    columns: str,
    longest: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert commands.run("/help")
    said = capsys.readouterr().err
    assert all(command in said for command in COMMANDS)
    assert max(map(len, said.splitlines())) < longest


def test_quit(commands: ChatCommands) -> None:
    assert not commands.run("/quit ")


def test_clear(commands: ChatCommands, session: Session, backend: FakeBackend) -> None:
    session.images = [IMAGE]
    assert commands.run("/clear")
    assert (session.images, backend.said) == ([], [])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/sav x", "there is no command '/sav'; did you mean /save?"),
        ("/etc/passwd\x1b[2J", r"there is no command '/etc/passwd\x1b[2J'; /help lists what there is"),
        ("/image", "/image needs a path"),
        ("/save  ", "/save needs a file name"),
        ("/image /nowhere", "/nowhere: no such file"),
        ("/save /nowhere/x", "/nowhere/x cannot be written: No such file or directory"),
        ("/set temprature 1", "there is no parameter 'temprature'; did you mean temperature?"),
        ("/set temperature 3", "temperature: must be from 0 to 2, not 3"),
        ("/resume", "/resume needs a number or an id; `/threads` lists your conversations"),
        ("/resume 3", "there is no number 3 in the list, which has 2"),
    ],
)
def test_mistakes(commands: ChatCommands, typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run(typed)
    assert capsys.readouterr().err == f"{said}\n"


def test_images(
    commands: ChatCommands, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a picture.png"
    path.write_bytes(CONTENT["image/png"])
    for _ in range(MAX_IMAGES + 1):
        assert commands.run(f"/image {path}")
    assert session.images == [IMAGE] * MAX_IMAGES
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == f"{path} (image/png, 1 KiB) goes with the next message"
    assert last == "20 images are allowed in one message"


def test_save(
    commands: ChatCommands, backend: FakeBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, rows = tmp_path / "chat.txt", tmp_path / "chat.json"
    assert commands.run(f"/save {text}")
    assert commands.run(f"/save {rows}")
    assert text.read_text() == "you: look\n\njarvis: nice\n"
    assert json.loads(rows.read_text()) == backend.said
    assert stat.S_IMODE(text.stat().st_mode) == 0o600
    assert commands.run(f"/save {text}")
    assert capsys.readouterr().err.splitlines()[-1] == f"{text} is there already; name another file"


def parameters(commands: ChatCommands, session: Session, *typed: str) -> dict[str, Any]:
    """What goes with the next turn after these commands."""
    for each in typed:
        assert commands.run(each)
    return dict(session.settings.parameters)


def test_parameters(commands: ChatCommands, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert parameters(commands, session, "/set temperature 0.5", "/set top_p null", "/set stop </x>") == {
        "temperature": 0.5,
        "top_p": None,
        "stop": "</x>",
    }
    assert "temperature" not in parameters(commands, session, "/set temperature", "/set seed")
    capsys.readouterr()
    assert commands.run("/set")
    assert capsys.readouterr().err == '/set top_p null\n/set stop "</x>"\n'


def test_the_system_prompt(commands: ChatCommands, session: Session) -> None:
    assert parameters(commands, session, "/system Be brief") == {"systemAppend": "Be brief"}
    assert parameters(commands, session, "/system") == {"systemAppend": "Be brief"}
    assert parameters(commands, session, "/system -") == {}


def test_tools(commands: ChatCommands, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert parameters(commands, session, "/tools tools__add own") == {
        "tools_allowlist": ["tools__add", "own"]
    }
    assert parameters(commands, session, "/tools") == {"tools_allowlist": ["tools__add", "own"]}
    said = capsys.readouterr().err.splitlines()
    assert said[-3:] == ["  tools__add", "  tools__echo", "allowed: tools__add own; `/tools -` allows all"]
    assert parameters(commands, session, "/tools -") == {}


def test_who_takes_no_parameters(
    commands: ChatCommands, session: Session, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.takes_parameters = False
    assert parameters(commands, session, "/set seed 1", "/system x", "/tools a") == {}
    assert capsys.readouterr().err.count("takes no parameters") == 3


def test_retry_asks_the_last_again(commands: ChatCommands, session: Session, backend: FakeBackend) -> None:
    session.settings.set("seed", "1")
    session.images = [IMAGE]
    assert commands.run("/retry")
    assert session.images == [IMAGE], "they are for the next message"
    assert [tuple(asked) for asked in backend.asked] == [(None, {"seed": 1})]


def test_threads(commands: ChatCommands, backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.kept = [{"role": "user", "content": "What is 2 + 3?", "status": "complete"}]
    assert commands.run("/threads sums")
    listed = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in listed] == ["1", "2"]
    assert (backend.searched, "Sums" in listed[0], "(without a title)" in listed[1]) == (["sums"], True, True)
    for said, meant in (
        ("2", "22222222-bbbb"),
        ("1111", "11111111-aaaa"),
        ("33333333-cccc", "33333333-cccc"),
    ):
        assert commands.run(f"/resume {said}")
        assert backend.current == meant
    assert "> What is 2 + 3?" in capsys.readouterr().err


def test_without_threads(capsys: pytest.CaptureFixture[str]) -> None:
    commands = ChatCommands(Session(FakeBackend()))
    for typed in ("/threads", "/resume 1"):
        assert commands.run(typed)
        assert "conversations are kept by a gateway, and there is none here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "word", "found"),
    [
        ("", "/s", ["/set", "/system", "/save"]),
        ("", "", []),
        ("/set ", "temp", ["temperature"]),
        ("/set seed ", "t", []),
        ("/tools ", "tools__a", ["tools__add"]),
        ("hello ", "/s", []),
    ],
)
def test_completion(commands: ChatCommands, before: str, word: str, found: list[str]) -> None:
    assert commands.complete(before, word) == found


def test_completion_of_paths_and_ids(commands: ChatCommands, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    assert commands.complete("/image ", f"{tmp_path}/pic") == [f"{tmp_path}/pictures/"]
    assert commands.complete("/image ", f"{tmp_path}/none/pic") == []
    assert commands.complete("/resume ", "1") == []
    assert commands.run("/threads")
    assert commands.complete("/resume ", "1") == ["11111111-aaaa"]
