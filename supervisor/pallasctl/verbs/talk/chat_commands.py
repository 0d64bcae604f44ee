"""What a person may type in a chat beside messages: /help, /clear, /image, /save, /quit.

Knows the conversation and files; nothing of calls.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_common.problems import counted, did_you_mean, quoted
from pallas_common.protocol.agent.images import MAX_IMAGES
from pallasctl.verbs.talk.images import ImageError, read_image
from pallasctl.verbs.talk.terminal.output import complain, note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_control.mcp.messages import ImageDocument
    from pallasctl.verbs.talk.conversation import Conversation

_HELP: Mapping[str, str] = {
    "/help": "this list",
    "/image PATH": "send an image with the next message (PNG, JPEG, GIF, WebP)",
    "/clear": "forget the conversation, and images that were not sent",
    "/save FILE": "write the conversation to a new file, as text or as .json",
    "/quit": "end the chat, as Ctrl-D does",
}
COMMANDS = tuple(line.split()[0] for line in _HELP)

_KEYS = (
    "Ctrl-C cancels an answer; the conversation goes on as if it had not been asked for.",
    "A line that ends with \\ goes on in the next one; what is pasted is one message.",
    "To send a message that begins with a slash, put a space before it.",
)


def is_command(message: str) -> bool:
    """Whether it is for the chat itself, and not for the agent."""
    return message.startswith("/") and "\n" not in message


class ChatCommands:
    """Carries them out; `images` go with the next message."""

    def __init__(self, agent: str, conversation: Conversation) -> None:
        self._agent = agent
        self.conversation = conversation
        self.images: list[ImageDocument] = []

    def run(self, message: str) -> bool:
        """Whether the chat goes on."""
        command, _, argument = message.strip().partition(" ")
        argument = argument.strip()
        match command:
            case "/help":
                self._help()
            case "/quit":
                return False
            case "/clear":
                self.conversation.clear()
                self.images = []
                note("the conversation begins anew")
            case "/image" | "/save" if not argument:
                complain(f"{command} needs a {'path' if command == '/image' else 'file name'}")
            case "/image":
                self._image(argument)
            case "/save":
                self._save(argument)
            case _:
                near = did_you_mean(command, COMMANDS)
                way_out = f"did you mean {near}?" if near else "/help lists what there is"
                complain(f"there is no command {quoted(command)}; {way_out}")
        return True

    def _help(self) -> None:
        width = max(map(len, _HELP))
        for command, meaning in _HELP.items():
            note(f"  {command:<{width}}  {meaning}", "plain")
        for line in _KEYS:
            note(line)

    def _image(self, path: str) -> None:
        if len(self.images) >= MAX_IMAGES:
            complain(f"{counted(MAX_IMAGES, 'image')} are allowed in one message")
            return
        try:
            image = read_image(str(Path(path).expanduser()))
        except (ImageError, RuntimeError) as error:
            complain(str(error))
            return
        self.images.append(image)
        size = len(image["data"]) * 3 // 4 // 1024
        note(f"{path} ({image['mime_type']}, {max(size, 1)} KiB) goes with the next message")

    def _save(self, name: str) -> None:
        as_json = name.endswith(".json")
        text = self.conversation.as_json() if as_json else self.conversation.as_text(self._agent)
        try:
            path = Path(name).expanduser()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            complain(f"{name} is there already; name another file")
        except (OSError, ValueError, RuntimeError) as error:
            complain(f"{name} cannot be written: {(isinstance(error, OSError) and error.strerror) or error}")
        else:
            note(f"{counted(len(self.conversation), 'turn')} written to {name}")
