"""What a person may type in a chat beside messages: commands, and what they may be completed to.

Knows the session and files; what commands of threads do is in `threads`.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import counted, did_you_mean, quoted
from pallas_common.protocol.agent.images import MAX_IMAGES
from pallasctl.verbs.talk.chat import settings, transcript
from pallasctl.verbs.talk.chat.session import FAILURES, explained, send
from pallasctl.verbs.talk.chat.settings import ALLOWED, APPENDED, SettingError
from pallasctl.verbs.talk.chat.threads import ThreadCommands
from pallasctl.verbs.talk.images import ImageError, read_image
from pallasctl.verbs.talk.terminal.line_input import paths
from pallasctl.verbs.talk.terminal.output import complain, note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pallasctl.verbs.talk.chat.session import Session

_HELP: Mapping[str, str] = {
    "/help": "this list",
    "/image PATH": "send an image with the next message",
    "/retry": "ask the last message again, in place of its turn",
    "/set KEY VALUE": "set a parameter; null clears the agent's default",
    "/set [KEY]": "list what is set; take KEY back",
    "/system TEXT": "add to the system prompt; - takes it back",
    "/tools NAME...": "allow these tools alone; - allows all",
    "/tools": "list the agent's tools",
    "/clear": "begin a new conversation",
    "/threads [WORDS]": "list your conversations with the agent",
    "/resume N|ID": "go on with one of them",
    "/save FILE": "write the conversation to a new file, .json or text",
    "/quit": "end the chat, as Ctrl-D does",
}
COMMANDS = tuple(dict.fromkeys(line.split()[0] for line in _HELP))

_KEYS = (
    "Ctrl-C cancels an answer; the chat goes on.",
    "A line that ends with \\ goes on in the next one; what is pasted is one message.",
    "To send a message that begins with a slash, put a space before it.",
)
_NEEDS = {"/image": "path", "/save": "file name"}
_OF_PARAMETERS = ("/set", "/system", "/tools")
_WIDE = 76
"""Columns that the list of commands takes; with fewer, what a command does stands below it."""
BACK = "-"
"""Takes back what a command has set."""


def is_command(message: str) -> bool:
    """Whether it is for the chat itself, and not for the agent."""
    return message.startswith("/") and "\n" not in message


class ChatCommands:
    """Carries them out."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.threads = ThreadCommands(session)
        self._tools: Sequence[str] | None = None

    def run(self, message: str) -> bool:
        """Whether the chat goes on."""
        command, _, argument = message.strip().partition(" ")
        if command == "/quit":
            return False
        try:
            self._run(command, argument.strip())
        except FAILURES as error:
            complain(*explained(error, self._session.backend.agent))
        except (SettingError, ImageError) as error:
            complain(str(error))
        return True

    def complete(self, before: str, word: str) -> list[str]:
        """What a word that has been begun may become.

        Args:
            before: the line up to it.
        """
        if not before:
            return [command for command in COMMANDS if word and command.startswith(word)]
        match before.split()[0]:
            case "/image" | "/save":
                return paths(word)
            case "/set" if len(before.split()) == 1:
                return [name for name in settings.NAMES if name.startswith(word)]
            case "/resume":
                return self.threads.complete(word)
            case "/tools":
                return [name for name in self._known_tools() if name.startswith(word)]
        return []

    def _run(self, command: str, argument: str) -> None:
        known: Mapping[str, Callable[[str], None]] = {
            "/help": _help,
            "/image": self._image,
            "/retry": self._retry,
            "/set": self._set,
            "/system": self._system,
            "/tools": self._limit_tools,
            "/clear": self._clear,
            "/threads": self.threads.show_list,
            "/resume": self.threads.resume,
            "/save": self._save,
        }
        if command not in known:
            near = did_you_mean(command, COMMANDS)
            way_out = f"did you mean {near}?" if near else "/help lists what there is"
            complain(f"there is no command {quoted(command)}; {way_out}")
        elif command in _NEEDS and not argument:
            complain(f"{command} needs a {_NEEDS[command]}")
        elif command in _OF_PARAMETERS and argument and not self._session.backend.takes_parameters:
            complain(f"{command}: an agent that is named by its URL takes no parameters")
        else:
            known[command](argument)

    def _retry(self, _: str) -> None:
        send(self._session, None)

    def _clear(self, _: str) -> None:
        self._session.backend.clear()
        self._session.images = []
        note("the conversation begins anew")

    def _set(self, argument: str) -> None:
        known = self._session.settings
        name, _, value = argument.partition(" ")
        if value := value.strip():
            known.set(name, value)
            note(f"{name} is {settings.shown(known.get(name))} from now on")
        elif name:
            note(f"{name} is the agent's own again" if known.remove(name) else f"{name} was not set")
        else:
            for line in known.lines():
                note(line)

    def _system(self, text: str) -> None:
        known = self._session.settings
        if text == BACK:
            known.remove(APPENDED)
        elif text:
            known.put(APPENDED, text)
        now = known.get(APPENDED)
        note("nothing is added to the system prompt" if now is None else f"added to the system prompt: {now}")

    def _limit_tools(self, argument: str) -> None:
        known = self._session.settings
        if argument == BACK:
            known.remove(ALLOWED)
            note("all tools of the agent are allowed")
            return
        if argument:
            known.put(ALLOWED, argument.replace(",", " ").split())
        allowed = known.get(ALLOWED)
        if not argument:
            self._tools = None
            tools = self._known_tools(quietly=False)
            for tool in tools:
                note(f"  {tool}", "plain")
            if not tools:
                note("the agent has no tools")
        if allowed is not None:
            note(f"allowed: {' '.join(allowed) or 'none'}; `/tools {BACK}` allows all")

    def _known_tools(self, *, quietly: bool = True) -> Sequence[str]:
        if self._tools is None:
            try:
                self._tools = self._session.backend.tools()
            except FAILURES:
                if not quietly:
                    raise
                return ()
        return self._tools

    def _image(self, path: str) -> None:
        images = self._session.images
        if len(images) >= MAX_IMAGES:
            complain(f"{counted(MAX_IMAGES, 'image')} are allowed in one message")
            return
        try:
            image = read_image(str(Path(path).expanduser()))
        except RuntimeError as error:  # there is no such home
            raise ImageError(str(error)) from None
        images.append(image)
        size = len(image["data"]) * 3 // 4 // 1024
        note(f"{path} ({image['mime_type']}, {max(size, 1)} KiB) goes with the next message")

    def _save(self, name: str) -> None:
        rows = self._session.backend.rows()
        as_json = name.endswith(".json")
        text = transcript.as_json(rows) if as_json else transcript.as_text(self._session.backend.agent, rows)
        try:
            path = Path(name).expanduser()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
        except FileExistsError:
            complain(f"{name} is there already; name another file")
        except (OSError, ValueError, RuntimeError) as error:
            complain(f"{name} cannot be written: {(isinstance(error, OSError) and error.strerror) or error}")
        else:
            note(f"{counted(transcript.turns(rows), 'turn')} written to {name}")


def _help(_: str) -> None:
    width = max(map(len, _HELP))
    columns = shutil.get_terminal_size().columns
    for command, meaning in _HELP.items():
        if columns >= _WIDE:
            note(f"  {command:<{width}}  {meaning}", "plain")
        else:
            note(command, "plain")
            for line in textwrap.wrap(meaning, max(columns - 5, 20)):
                note(f"    {line}", "plain")
    for key in _KEYS:
        for line in textwrap.wrap(key, max(columns, _WIDE // 2) - 1):
            note(line)
