"""The first human token: made at the first start, and again when its file and the store do not fit each other.

Whoever can read its file, in the state directory, may everything. Two gateways that start at a time make one: the look
and the making are one transaction, which locks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import text

from pallas_common.logs.setup import get_logger
from pallas_common.protocol.gateway import OPERATOR_FILE
from pallas_common.secrets.private_files import read_line
from pallas_common.secrets.tokens import is_token, token_digest
from pallas_gateway.identity.grants import EVERYTHING
from pallas_gateway.identity.principal import TENANT
from pallas_gateway.store import tokens
from pallas_gateway.store.deployment.private_files import write_line
from pallas_gateway.store.errors import MalformedTokenError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from pallas_gateway.store.database import Store

OPERATOR = "operator"
"""The name of the token, and in its row what made it."""

_LOCK = 0x506C_6C73_0002
"""Of PostgreSQL's advisory lock."""

_log = get_logger("pallas.gateway.store")


async def ensure_operator_token(store: Store, directory: Path) -> bool:
    """See to it that the file has a token that counts; whether a new one was made.

    Raises:
        StoreUnavailableError: the database or the file cannot be written.
    """
    made = await store.write(partial(_ensure, directory=directory))
    if made is None:
        return False
    message, is_first = made
    (_log.info if is_first else _log.warning)(message)
    return True


def is_operators(directory: Path, token: tokens.Token) -> bool:
    """Whether the token is the one in the file."""
    held = _held(directory / OPERATOR_FILE)
    return held is not None and token_digest(held) == token.digest


def follow_rotation(directory: Path, old: tokens.Token, new: str) -> bool:
    """Put the new text into the file if it had the old one; whether it had. To be called within the transaction.

    Raises:
        StoreUnavailableError: the file cannot be written.
    """
    if not is_operators(directory, old):
        return False
    write_line(directory / OPERATOR_FILE, new)
    return True


def _ensure(connection: Connection, directory: Path) -> tuple[str, bool] | None:
    """What was made, for the log, and whether it is the first; None if nothing was."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    path = directory / OPERATOR_FILE
    held = _held(path)
    problem = _problem(connection, held)
    if problem is None:
        return None
    # Nobody has the text of those that were made before, or somebody has it who should not.
    before = tokens.revoke_made_by(connection, tenant=TENANT, maker=OPERATOR)
    new = tokens.create(
        connection, tenant=TENANT, name=OPERATOR, role="human", grants=(EVERYTHING,), created_by=OPERATOR
    )
    # The last thing before the commit: a file without its row is noticed at the next start, and made anew.
    write_line(path, new.text)
    made = f"a token for the operator was made, {new.token.id}: it is in {path}"
    if held is None and not before:
        return made, True
    return f"{made}; the one before {problem}", False


def _problem(connection: Connection, held: str | None) -> str | None:
    """Why the token in the file does not do, to be read behind "the one before"; None if it does."""
    if held is None:
        return "was not in its file, and is revoked"
    try:
        token = tokens.by_digest(connection, token_digest(held))
    except MalformedTokenError:
        return "has a malformed record"
    if token is None:
        return "is not known to the store, which is another one, or was restored from a backup"
    if token.revoked is not None:
        return "was revoked"
    if not token.counts(tokens.now()):
        return "has expired"
    return None if EVERYTHING in token.grants else "may not do everything"


def _held(path: Path) -> str | None:
    """The token in the file; None if there is none."""
    found = read_line(path)
    return found if found is not None and is_token(found) else None
