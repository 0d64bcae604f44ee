"""The secrets that a deployment's files, environment and resources name, to keep them out of what is written.

Reads fast-agent's files, and reports nothing that is wrong with them: `source` does.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pallas_common.problems import ConfigurationError
from pallas_common.secrets.references import expanded
from pallas_common.secrets.values import secrets_in
from pallas_registry.fastagent_files.paths import HOME_VARIABLE, settings_files
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import compose, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pallas_registry.deployment.model import Deployment
    from pallas_registry.resources.model import ResourceSet


def configured_secrets(directory: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The secrets of `environ` and of fast-agent's files for `directory`, `${NAME}` put in as fast-agent does."""
    yield from secrets_in(environ)
    for path in settings_files(directory, environ.get(HOME_VARIABLE)):
        try:
            state = path.stat()
        except (OSError, ValueError):
            continue
        for secret in _secrets_of(path, state.st_mtime_ns, state.st_ino):
            yield expanded(secret, environ)


def values_of(resources: ResourceSet) -> Iterator[str]:
    """The values of all `secret` resources."""
    for secret in resources.of("secret").values():
        yield from (value for value in secret.spec["data"].values() if isinstance(value, str))


def secrets_of(deployment: Deployment) -> Iterator[str]:
    """What `agents.yaml` itself holds: the password of the gateway's store, which had better be elsewhere."""
    if deployment.gateway is not None and deployment.gateway.store is not None:
        yield from secrets_in(deployment.gateway.store)


@functools.lru_cache(maxsize=32)
def _secrets_of(path: Path, _changed: int, _inode: int) -> tuple[str, ...]:
    """What the file names as secret; read once for each of its states, since every start of an agent asks."""
    try:
        data = read_file(path)
        root = None if data is None else compose(data, str(path))
    except ConfigurationError:
        return ()
    return () if root is None else tuple(secrets_in(plain(root)))
