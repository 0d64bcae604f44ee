"""Which database is the gateway's store, found without the gateway: it may be what is broken.

Knows the places; nothing of what is in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from pallas_control.errors import ControlError, NamesakeError
from pallasctl.failures import Failure
from pallasctl.options import control

STORE_FILE = "gateway.db"
"""In the state directory, where no store is named."""


def store_file(named: str | None) -> Path | str:
    """The file of the store, or the address of a PostgreSQL, without its password.

    Args:
        named: what the command line says, as `store` of `gateway:`.

    Raises:
        Failure: it cannot be told.
    """
    place = store_place()
    store, state = named or place.store, place.state_directory
    if store is None:
        if state is None:
            raise Failure(
                "which store is meant? no supervisor answers and there is no agents.yaml here; name it with --store"
            )
        return state / STORE_FILE
    kind, _, rest = store.partition(":")
    if kind == "sqlite":
        path = rest.removeprefix("///").partition("?")[0]
        # A store that the command line names is where a shell would look for it.
        return Path(path) if named or state is None else state / path
    if kind in ("postgresql", "postgres", "postgresql+psycopg"):
        return _without_password(store)
    if named is not None and "://" not in named:
        return Path(named)
    raise Failure(f"there is no such kind of store as {kind!r}: sqlite:PATH or postgresql://…")


@dataclass(frozen=True, slots=True)
class StorePlace:
    """What is configured of the store of the deployment that the command line means."""

    store: str | None = field(repr=False)
    """As the environment or `agents.yaml` names it, maybe with a password."""
    state_directory: Path | None
    deployment: str | None


def store_place() -> StorePlace:
    """What the environment or `agents.yaml` names, and the state directory of that deployment."""
    from pallas_common.problems import ConfigurationError
    from pallas_registry.deployment.agents_file import read_deployment
    from pallas_registry.deployment.location import deployment_path
    from pallas_registry.environment.dotenv import load_dotenv
    from pallas_registry.environment.state_directory import state_directory
    from pallas_registry.reading.rules import STORE_VARIABLE

    here, file = Path.cwd(), None
    try:
        running = control().get("/v1/status")
    except NamesakeError:
        raise
    except ControlError:
        running = None
    if running is not None and (theirs := running.get("file")):
        here, file = Path(running["directory"]), Path(theirs)
    try:
        environ = {**os.environ, **load_dotenv(here, os.environ)}
        base = read_deployment(file or deployment_path(environ), here)
    except ConfigurationError:
        base, environ = None, dict(os.environ)
    if running is not None:
        directory = running["supervisor"].get("state_directory")
        state = None if directory is None else Path(directory)
    else:
        state = None if base is None else state_directory(base.name, environ)
    store = environ.get(STORE_VARIABLE) or None
    if store is None and base is not None and base.gateway is not None:
        store = base.gateway.store
    return StorePlace(
        store, state, (running or {}).get("deployment") or (None if base is None else base.name)
    )


def _without_password(address: str) -> str:
    """As `pg_dump` takes it."""
    parts = urlsplit(address)
    user = "" if parts.username is None else f"{quote(parts.username, safe='%')}@"
    return urlunsplit(("postgresql", user + parts.netloc.rpartition("@")[2], parts.path, "", ""))
