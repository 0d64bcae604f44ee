"""The verb `install-service`: write the systemd unit of this deployment, and say how it is started.

Knows where units go and whom they run as; what is in them is `pallas.service`'s. Starts nothing.
"""

from __future__ import annotations

import difflib
import grp
import os
import pwd
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pallas_common.terminal_text import terminal_line, terminal_text
from pallasctl.failures import EXIT_USAGE, Failure
from pallasctl.options import config_option

if TYPE_CHECKING:
    from pallas.service.unit import Service
    from pallas_registry.deployment.model import Deployment

SYSTEM_UNITS = Path("/etc/systemd/system")
HOMES = tuple(map(Path, ("/home", "/root", "/run/user")))
TEMPORARY = tuple(map(Path, ("/tmp", "/var/tmp")))  # noqa: S108 - where the unit would have folders of its own

_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.-]{1,200}")


class _Refused(Failure):
    """Nothing was written: the configuration, or what was asked for, is wrong."""

    exit_code = EXIT_USAGE


@click.command("install-service")
@click.option(
    "--user", "scope", flag_value="user", help="For your own service manager [default, but for root]."
)
@click.option(
    "--system", "scope", flag_value="system", help="For the machine's, sandboxed [default for root]."
)
@click.option("--name", metavar="NAME", help="Of the unit [default: pallas- and the deployment's name].")
@click.option(
    "--run-as",
    metavar="USER",
    help="With --system: whom it runs as [default: who owns the folder, else pallas].",
)
@config_option
@click.option("--dry-run", is_flag=True, help="Print the unit and write nothing.")
def install_service(
    *, scope: str | None, name: str | None, run_as: str | None, config: Path | None, dry_run: bool
) -> None:
    """Write a systemd unit for this deployment.

    It starts the deployment at boot, and again after a crash.

    The unit runs this installation of Pallas in this folder. Another file in its place is not overwritten. Nothing is
    started: the commands for that are printed.

    Exit status: 0 the unit is there, 1 it could not be written, 2 the configuration or the command line is wrong.
    """
    from pallas.service.unit import shipped_unit, unit_for

    scope = scope or ("system" if os.geteuid() == 0 else "user")
    if run_as is not None and scope == "user":
        raise click.UsageError("--run-as is for --system; a user's own unit runs as that user")
    service = _service(_deployment(config), scope, name, run_as)
    try:
        text = unit_for(service, shipped_unit())
    except ValueError as error:
        raise _Refused(str(error)) from None
    if dry_run:
        click.echo(terminal_text(text), nl=False)
        return
    path = (SYSTEM_UNITS if scope == "system" else user_units()) / f"{service.name}.service"
    new = _write(path, text)
    click.echo(terminal_line(f"{path}: {'written' if new else 'is there already, as it should be'}"))
    for line in _next_steps(service):
        click.echo(terminal_line(line))


def user_units() -> Path:
    """Where a user's own units are."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(base if base.startswith("/") else Path.home() / ".config", "systemd/user")


def _deployment(config: Path | None) -> Deployment:
    """The deployment, which has to be good: a service that cannot start is of no use.

    Raises:
        Failure: it is not.
    """
    from pallas_common.problems import ConfigurationError
    from pallas_registry.deployment.location import working_directory
    from pallas_registry.source import read_start

    try:
        return read_start(working_directory(), os.environ, config).configuration.deployment
    except ConfigurationError as error:
        details = [str(problem) for problem in error.problems]
        raise _Refused("the configuration cannot be used; nothing was written", details=details) from None


def _service(deployment: Deployment, scope: str, name: str | None, run_as: str | None) -> Service:
    from pallas.service.unit import Service
    from pallas_registry.environment.runtime_directory import path_name

    directory = Path.cwd()
    programs = Path(sys.executable).parent
    if not (programs / "pallas").exists():
        raise Failure(f"{programs} has no `pallas`: install Pallas into the environment of {sys.executable}")
    slug = path_name(deployment.name)
    name = (name or f"pallas-{slug}").removesuffix(".service")
    if not _UNIT_NAME.fullmatch(name):
        raise _Refused(f"{name!r} is no name for a unit: letters, digits and :_.- only")
    own = deployment.path == directory / "agents.yaml"
    places = [directory, deployment.path, Path(sys.prefix), Path(sys.base_prefix)]
    user = _user(run_as, directory) if scope == "system" else None
    return Service(
        name=name,
        deployment=slug,
        directory=directory,
        config=None if own else deployment.path,
        programs=programs,
        user=None if user is None else user.pw_name,
        group=None if user is None else grp.getgrgid(user.pw_gid).gr_name,
        search_path=_search_path(programs),
        in_homes=_below(places, HOMES),
        in_temporary=_below(places, TEMPORARY),
    )


def _user(named: str | None, directory: Path) -> pwd.struct_passwd:
    """Whom a system's unit runs as.

    Raises:
        Failure: there is no such user, or none that follows.
    """
    owner = directory.stat().st_uid
    try:
        if named is not None:
            return pwd.getpwnam(named)
        return pwd.getpwuid(owner) if owner != 0 else pwd.getpwnam("pallas")
    except KeyError:
        who = (
            f"there is no user {named}"
            if named
            else f"{directory} belongs to root, and there is no user pallas"
        )
        raise Failure(
            f"{who}: name one with --run-as, or make it with `useradd --system --home-dir /var/lib/pallas pallas`"
        ) from None


def _search_path(programs: Path) -> str:
    folders = [str(programs), *os.environ.get("PATH", "").split(":")]
    return ":".join(folder for folder in dict.fromkeys(folders) if folder.startswith("/"))


def _below(places: list[Path], folders: tuple[Path, ...]) -> bool:
    return any(
        path.is_relative_to(folder)
        for place in places
        for path in {place, place.resolve()}
        for folder in folders
    )


def _write(path: Path, text: str) -> bool:
    """Write the unit, whole or not at all; False if it is there already.

    Raises:
        Failure: another one is there, or it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        return _same(path, text)
    except PermissionError:
        again = shlex.join(["sudo", str(Path(sys.executable).parent / "pallas"), *sys.argv[1:]])
        raise Failure(
            f"{path} cannot be written: `{again}`, or --user, or --dry-run to see the unit"
        ) from None
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}") from None
    return True


def _same(path: Path, text: str) -> bool:
    try:
        there = path.read_text()
    except (OSError, UnicodeDecodeError):
        there = ""
    if there == text:
        return False
    changes = [*difflib.unified_diff(there.splitlines(), text.splitlines(), "there", "new", lineterm="", n=0)]
    raise Failure(
        f"{path} is there already and is not what would be written: remove it, or take another --name",
        details=changes[:40],
    )


def _next_steps(service: Service) -> list[str]:
    of_user = service.user is None
    systemctl = "systemctl --user" if of_user else "systemctl"
    steps = [
        f"Start it now and at every boot: {systemctl} daemon-reload && {systemctl} enable --now {service.name}"
    ]
    if of_user:
        steps.append("At boot without a login: loginctl enable-linger")
    journal = "journalctl --user" if of_user else "journalctl"
    return [
        *steps,
        f"Then: pallasctl status; {systemctl} status {service.name}; {journal} -u {service.name} -o cat",
    ]
