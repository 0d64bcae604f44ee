"""What of the machine is in the way, where nothing runs yet."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mistakes.cases.parts import GOOD, HEAD, PROJECT
from mistakes.mistake import Mistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from mistakes.mistake import Place


def _taken(port: int) -> Callable[[Place], socket.socket]:
    def take(place: Place) -> socket.socket:
        held = socket.socket()
        held.bind(("127.0.0.1", place.ports[port]))
        held.listen()
        return held

    return take


def _read_only_log(place: Place) -> None:
    (place.folder / "log").mkdir(mode=0o555)


def _read_only_runtime(place: Place) -> None:
    (place.root / "run").chmod(0o555)


def _unreadable(place: Place) -> None:
    (place.folder / ".env").write_text("A=1\n")
    (place.folder / ".env").chmod(0)


ONE = f"{HEAD}  research:\n    module: agents.research\n    port: 8202\n"
GONE = "mkdir gone && cd gone && rmdir ../gone && "

MISTAKES = (
    Mistake(
        name="port-taken",
        files=PROJECT,
        prepare=_taken(8201),
        apart=True,
        commands=["pallas", "pallas up -d"],
    ),
    Mistake(
        name="port-taken-check",
        files={**PROJECT, "agents.yaml": ONE},
        prepare=_taken(8202),
        commands=["pallas check"],
    ),
    Mistake(
        name="gateway-port-taken",
        files={**PROJECT, "agents.yaml": ONE.replace("agents:\n", "gateway:\n  port: 8203\nagents:\n")},
        prepare=_taken(8203),
        apart=True,
        commands=["pallas"],
    ),
    Mistake(
        name="gateway-address",
        files={
            **PROJECT,
            "agents.yaml": ONE.replace("agents:\n", "gateway: {port: 8203, bind: 192.0.2.1}\nagents:\n"),
        },
        apart=True,
        commands=["pallas"],
    ),
    Mistake(name="registry-port-taken", files=PROJECT, prepare=_taken(8200), apart=True, commands=["pallas"]),
    Mistake(
        name="unwritable-log",
        files=PROJECT,
        prepare=_read_only_log,
        apart=True,
        commands=["PALLAS_LOG_FILE=log/pallas.log pallas"],
    ),
    Mistake(name="unwritable-home", files=PROJECT, apart=True, commands=["HOME=/proc/nowhere pallas"]),
    Mistake(
        name="unwritable-runtime-directory",
        files=PROJECT,
        prepare=_read_only_runtime,
        apart=True,
        commands=["pallas", "pallasctl status"],
    ),
    Mistake(name="unreadable-dotenv", files=PROJECT, prepare=_unreadable, apart=True, commands=["pallas"]),
    Mistake(
        name="deleted-working-directory",
        files={"agents.yaml": GOOD},
        apart=True,
        commands=[f"{GONE}pallas", f"{GONE}pallas check", f"{GONE}pallasctl status", f"{GONE}pallas init"],
    ),
)
