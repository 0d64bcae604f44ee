"""The unit of one deployment, made from the one that is shipped: other paths and names.

A user's own manager gets it without what only root's can do. Pure but for reading the shipped file.

Knows systemd.unit(5)'s syntax, as far as our own unit uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHIPPED = "pallas-supervisor.service"

_HEAD = """\
# The Pallas deployment {name}, written by `pallas install-service{scope}`. Change nothing here:
# `{edit} {unit}` keeps your changes apart.

"""
_FOLDERS = (
    "# /run/pallas: control.sock, for members of the group pallas; "
    "/var/lib/pallas: the log file and the home directory."
)
"""What the shipped unit says of its folders."""

_ROOT_ONLY = frozenset(
    {
        "After",
        "AmbientCapabilities",
        "CacheDirectory",
        "CacheDirectoryMode",
        "CapabilityBoundingSet",
        "DevicePolicy",
        "EnvironmentFile",
        "Group",
        "KeyringMode",
        "LockPersonality",
        "PrivateDevices",
        "PrivateTmp",
        "ProtectClock",
        "ProtectHome",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectProc",
        "ProtectSystem",
        "RemoveIPC",
        "RestrictAddressFamilies",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
        "StateDirectory",
        "StateDirectoryMode",
        "SystemCallArchitectures",
        "SystemCallErrorNumber",
        "SystemCallFilter",
        "User",
        "Wants",
        "Environment=PALLAS_LOG_FILE",
        "Environment=XDG_CACHE_HOME",
    }
)
"""Settings that a user's own manager cannot or need not do: it is that user already, with the user's folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a unit is made for."""

    name: str
    """Of the unit, without `.service`."""
    deployment: str
    """The deployment's name as a part of paths."""
    directory: Path
    """Working directory of the agents."""
    config: Path | None
    """`agents.yaml`, where it is not the one in `directory`."""
    programs: Path
    """The folder that holds `pallas` and `pallasctl`."""
    user: str | None
    """Whom it runs as; None for a unit of the user's own manager."""
    group: str | None = None
    search_path: str = ""
    """PATH of a user's unit, whose manager does not know that of the user's shell."""
    in_homes: bool = False
    """Whether it needs files below `/home`, `/root` or `/run/user`, which the shipped unit hides."""
    in_temporary: bool = False
    """Whether it needs files below `/tmp` or `/var/tmp`."""


def shipped_unit() -> str:
    """The text of the unit that is shipped."""
    return files("pallas.service").joinpath(SHIPPED).read_text()


def unit_for(service: Service, shipped: str) -> str:
    """The text of the deployment's unit.

    Raises:
        ValueError: a path has a character that no unit can have.
    """
    of_user = service.user is None
    start = [str(service.programs / "pallas")]
    if service.config is not None:
        start += ["--config", str(service.config)]
    folder = f"pallas/{service.deployment}"
    changes: dict[str, str | None] = {
        "Description": f"Pallas deployment {_literal(service.deployment)}",
        "WorkingDirectory": _literal(str(service.directory)),
        "ExecStart": " ".join(map(_argument, start)),
        "ExecReload": f"{_argument(str(service.programs / 'pallasctl'))} reload",
        "RuntimeDirectory": folder,
    }
    if of_user:
        changes |= dict.fromkeys(_ROOT_ONLY)
        changes["WantedBy"] = "default.target"
    else:
        changes |= {
            "User": service.user,
            "Group": service.group,
            "StateDirectory": folder,
            "CacheDirectory": folder,
            "Environment=PALLAS_LOG_FILE": f"PALLAS_LOG_FILE=%S/{folder}/pallas.log",
            "Environment=XDG_CACHE_HOME": f"XDG_CACHE_HOME=%C/{folder}",
        }
        if service.in_homes:
            changes["ProtectHome"] = "read-only"
        if service.in_temporary:
            changes["PrivateTmp"] = "no"
    lines = _changed(shipped, changes)
    has = "control.sock" if of_user else f"control.sock, for its group; /var/lib/{folder}: the log file"
    lines[lines.index(_FOLDERS)] = f"# %t/{folder}: {has}."
    if of_user and service.search_path:
        at = lines.index("Environment=PALLAS_LOG_STDERR=1")
        lines.insert(at + 1, f"Environment={_argument(f'PATH={service.search_path}', of_command=False)}")
    scope, edit = (" --user", "systemctl --user edit") if of_user else ("", "systemctl edit")
    head = _HEAD.format(name=service.deployment, scope=scope, edit=edit, unit=service.name)
    return head + "\n".join(lines) + "\n"


def _changed(text: str, changes: Mapping[str, str | None]) -> list[str]:
    """The lines with other values; settings that become None go, with the comments before them."""
    found: list[str] = []
    comments: list[str] = []
    used: set[str] = set()
    body = text.split("\n\n", 1)[1]  # the first paragraph is about the shipped file
    for line in body.splitlines():
        if line.startswith("#"):
            comments.append(line)
            continue
        key, _, value = line.partition("=")
        name = f"{key}={value.partition('=')[0]}" if key == "Environment" else key
        if name in changes:
            used.add(name)
            if (new := changes[name]) is None:
                comments = []
                continue
            line = f"{key}={new}"
        if line or (found and found[-1] and not comments):
            found += [*comments, line]
            comments = []
        elif comments:  # a comment of its own, about what is left out
            comments = []
    if missing := [name for name, value in changes.items() if value is not None and name not in used]:
        raise ValueError(f"the shipped unit has no {', '.join(missing)}")
    return found


def _literal(text: str) -> str:
    """The text where a unit takes all of a line: only specifiers have a meaning."""
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError(f"{text!r} has a character that no unit can have")
    return text.replace("%", "%%")


def _argument(text: str, *, of_command: bool = True) -> str:
    """The text as one word of a command line, or of `Environment=`."""
    quoted = _literal(text).replace("\\", "\\\\").replace('"', '\\"')
    if of_command:
        quoted = quoted.replace("$", "$$")
    return f'"{quoted}"' if any(character in quoted for character in " \t'\"\\;") else quoted
