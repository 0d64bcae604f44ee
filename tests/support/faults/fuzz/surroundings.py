"""The configuration's files and the environment: broken while the supervisor runs, and before a command."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from typing import TYPE_CHECKING

import yaml

from support.faults.fuzz.material import HOSTILE_NUMBERS, deep, hostile_value, mangled, mutated, one_line
from support.faults.fuzz.watched_fleet import BrokenError, WatchedFleet
from support.fleet.fleet import BIN, PATIENCE

if TYPE_CHECKING:
    import random
    from pathlib import Path


def attack_configuration(fleet: WatchedFleet, rng: random.Random) -> None:
    """A file of the configuration is broken while the supervisor runs, looked at, and put right again."""
    directory = fleet.deployment.directory
    name = rng.choice(
        ("agents.yaml", "agents.yaml", "fastagent.config.yaml", ".env", "fastagent.secrets.yaml")
    )
    path = directory / name
    good = path.read_bytes() if path.exists() else None
    try:
        _break_file(path, good or b"KEY=value\nOTHER: [1, 2]\n", rng)
        answer = fleet.fleet.post("/v1/reload", dry_run=True)
        if answer.status_code not in (200, 409, 422):  # 409: a good file that needs a restart
            raise BrokenError(
                f"a dry run with a broken {name} answered {answer.status_code}: {answer.text[:500]}"
            )
        fleet.fleet.status()
        if rng.random() < 0.1:
            ended = fleet.fleet.ctl("check", "--offline")
            if ended.returncode not in (0, 2) or "Traceback" in ended.stderr:
                raise BrokenError(f"pallasctl check: {ended.returncode}: {ended.stderr[-2000:]}")
    finally:
        _remove(path)
        if good is not None:
            path.write_bytes(good)
    answer = fleet.fleet.post("/v1/reload", dry_run=True)
    if answer.status_code != 200:
        raise BrokenError(f"the right configuration is refused: {answer.text[:500]}")


def _break_file(path: Path, good: bytes, rng: random.Random) -> None:
    what = rng.randrange(10)
    if what == 0:
        _remove(path)
        os.mkfifo(path)
    elif what == 1:
        _remove(path)
        path.mkdir()
    elif what == 2:
        _remove(path)
        path.symlink_to(rng.choice(("/dev/zero", "/dev/tty", path.name, "/proc/self/environ", "/nowhere")))
    elif what == 3:
        path.write_bytes(deep(rng, 100_000))
    elif what == 4:
        path.write_bytes(b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
            b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (n, n, *[n - 1] * 8) for n in range(98, 110)
        ))  # fmt: skip
    elif what == 5:
        with path.open("wb") as file:
            file.truncate(rng.choice((2**21, 2**26)))
    elif what <= 7:
        path.write_bytes(mangled(good, rng))
    else:
        with contextlib.suppress(yaml.YAMLError):
            text = yaml.safe_dump(mutated(yaml.safe_load(good), rng), allow_unicode=True)
            path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            path.rmdir()
        else:
            path.unlink()


VARIABLES = (
    *("PALLAS_LOG_LEVEL", "PALLAS_ROOT_LOG_LEVEL", "PALLAS_PROBE_INTERVAL", "PALLAS_LOG_FILE"),
    *("PALLAS_LOG_STDERR", "PALLAS_RUNTIME_DIR", "PALLAS_AGENTS_CONFIG", "PALLAS_CGROUP", "HOME"),
    *("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
    *("CREDENTIALS_DIRECTORY", "OTEL_TRACES_SAMPLER", "OTEL_EXPORTER_OTLP_ENDPOINT", "LANG", "TMPDIR"),
    *("XDG_RUNTIME_DIR", "COLUMNS", "TERM", "NO_COLOR"),
)
"""Whatever of the environment is read, by us or by libraries."""


COMMANDS = (
    ("pallas", "--agent", "nobody"),
    ("pallasctl", "check", "--offline"),
    ("pallasctl", "status"),
    ("pallasctl", "logs"),
)


def attack_environment(fleet: WatchedFleet, rng: random.Random) -> None:
    """Commands in an environment that somebody has set up badly: an error, but no traceback and no hang."""
    environment = dict(fleet.fleet.environment)
    del environment["PALLAS_TEST_LOOP_REPORT"]
    for variable in rng.sample(VARIABLES, rng.choice((1, 2, 4))):
        silly = (
            one_line(hostile_value(rng)),
            str(rng.choice(HOSTILE_NUMBERS)),
            "/proc/self/fd",
            "/dev/null",
            "",
        )
        environment[variable] = rng.choice(silly).replace("\0", "")[:5_000]
    command = rng.choice(COMMANDS)
    ended = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=fleet.deployment.directory,
        env={name.encode(): value.encode("utf-8", "replace") for name, value in environment.items()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    if ended.returncode not in range(5) or b"Traceback" in ended.stderr:
        told = {name: environment[name][:100] for name in VARIABLES if name in environment}
        raise BrokenError(
            f"{command} with {told}: {ended.returncode}: {ended.stderr[-2000:].decode('utf-8', 'replace')}"
        )
