"""Commands of a chat, and the conversation that they are about."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from pallas_common.protocol.agent.images import MAX_IMAGES
from pallas_control.mcp.messages import ImageDocument
from pallasctl.verbs.talk.chat_commands import COMMANDS, ChatCommands, is_command
from pallasctl.verbs.talk.conversation import Conversation
from support.data.image_data import CONTENT, PNG

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = ImageDocument(data=PNG, mime_type="image/png")


@pytest.fixture
def commands() -> ChatCommands:
    conversation = Conversation()
    conversation.add("look", [IMAGE], "nice")
    conversation.add("and?", [], "")
    return ChatCommands("jarvis", conversation)


def test_a_turn_without_an_answer_has_one_row(commands: ChatCommands) -> None:
    assert [(row["role"], row["content"]) for row in commands.conversation.rows] == [
        ("user", "look"),
        ("assistant", "nice"),
        ("user", "and?"),
    ]


@pytest.mark.parametrize(("turns", "left_out"), [(0, 0), (1, 1), (2, 1), (5, 3)])
def test_shortening_leaves_out_the_older_half(turns: int, left_out: int) -> None:
    conversation = Conversation()
    for number in range(turns):
        conversation.add(str(number), [], "x")
    assert conversation.shorten() == left_out
    kept = [row["content"] for row in conversation.rows if row["role"] == "user"]
    assert kept == [str(number) for number in range(left_out, turns)]


def test_what_is_a_command() -> None:
    assert is_command("/help")
    assert not is_command(" /help")
    assert not is_command("/usr/bin/x:\nwhat is this?")


def test_help_names_every_command(commands: ChatCommands, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("/help")
    said = capsys.readouterr().err
    assert all(command in said for command in COMMANDS)
    assert max(map(len, said.splitlines())) < 88


def test_quit(commands: ChatCommands) -> None:
    assert not commands.run("/quit ")


def test_clear(commands: ChatCommands) -> None:
    commands.images = [IMAGE]
    assert commands.run("/clear")
    assert (commands.images, commands.conversation.rows) == ([], [])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/sav x", "there is no command '/sav'; did you mean /save?"),
        ("/etc/passwd\x1b[2J", r"there is no command '/etc/passwd\x1b[2J'; /help lists what there is"),
        ("/image", "/image needs a path"),
        ("/save  ", "/save needs a file name"),
        ("/image /nowhere", "/nowhere: no such file"),
        ("/save /nowhere/x", "/nowhere/x cannot be written: No such file or directory"),
    ],
)
def test_mistakes(commands: ChatCommands, typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run(typed)
    assert capsys.readouterr().err == f"{said}\n"


def test_images(commands: ChatCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a picture.png"
    path.write_bytes(CONTENT["image/png"])
    for _ in range(MAX_IMAGES + 1):
        assert commands.run(f"/image {path}")
    assert commands.images == [IMAGE] * MAX_IMAGES
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == f"{path} (image/png, 1 KiB) goes with the next message"
    assert last == "20 images are allowed in one message"


def test_save(commands: ChatCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, rows = tmp_path / "chat.txt", tmp_path / "chat.json"
    assert commands.run(f"/save {text}")
    assert commands.run(f"/save {rows}")
    assert text.read_text() == "you: look [image/png]\n\njarvis: nice\n\nyou: and?\n"
    assert json.loads(rows.read_text()) == commands.conversation.rows
    assert stat.S_IMODE(text.stat().st_mode) == 0o600
    assert commands.run(f"/save {text}")
    assert capsys.readouterr().err.splitlines()[-1] == f"{text} is there already; name another file"
