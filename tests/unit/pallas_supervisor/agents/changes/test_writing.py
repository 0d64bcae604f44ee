"""Resources on the disk: whole or not at all, in an order in which none refers to what is still to come."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from pallas_registry.resources.files import KEY_FILE, ResourceFiles, folder_of
from pallas_registry.resources.model import Metadata, Resource, ResourceId
from pallas_supervisor.agents.changes.writing import keep, remove_leftovers
from pallas_supervisor.agents.errors import NotKeptError
from support.supervisor.declared import VALUE, agent, file, llm, secret

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = b"k" * 32
NOTED = Metadata(uid="u", owner="ada", version=1, created_at="2026", updated_at="2026")
DEPLOYER, SMALL, KEYS = (
    ResourceId("agent", "deployer"),
    ResourceId("llm", "small"),
    ResourceId("secret", "keys"),
)


def some(*documents: str) -> list[Resource]:
    read = file("a.yaml", *documents)
    assert read.problems == ()
    return [replace(each, metadata=NOTED) for each in read.resources]


def all_three() -> list[Resource]:
    return some(agent(), llm(), secret())


def content(state: Path) -> dict[str, bytes]:
    """All files, by their path."""
    found = folder_of(state).rglob("*") if folder_of(state).exists() else []
    return {str(path.relative_to(state)): path.read_bytes() for path in found if path.is_file()}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    state = tmp_path / "pallas" / "demo"
    keep(state, all_three(), [], KEY)
    kept = ResourceFiles().read(state)
    assert {id_: each.metadata for id_, each in kept.resources.items()} == dict.fromkeys(
        [DEPLOYER, SMALL, KEYS], NOTED
    )
    assert [kept.resources[each.id] for each in all_three()] == all_three()
    assert (kept.problems, kept.key) == ({}, KEY)
    assert kept.resources[KEYS].spec["data"]["API_KEY"] == VALUE


def test_nobody_else_may_read_any_of_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep(tmp_path / "state", all_three(), [], KEY)
    finally:
        os.umask(before)
    for path in (tmp_path / "state").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_resources_are_replaced_and_removed(tmp_path: Path) -> None:
    keep(tmp_path, all_three(), [], KEY)
    key = content(tmp_path)[f"resources/{KEY_FILE}"]
    keep(tmp_path, some(llm(model="other")), [DEPLOYER], b"x" * 32)
    kept = ResourceFiles().read(tmp_path)
    assert set(kept.resources) == {SMALL, KEYS}
    assert kept.resources[SMALL].spec["model"] == "other"
    assert content(tmp_path)[f"resources/{KEY_FILE}"] == key


def test_what_is_referred_to_comes_first_and_goes_last(tmp_path: Path) -> None:
    done: list[str] = []

    def noted[**P, T](what: str, do: Callable[P, T]) -> Callable[P, T]:
        def noting(*args: P.args, **kwargs: P.kwargs) -> T:
            path = Path(str(args[0]))
            if path.suffix == ".tmp" or (what == "remove" and path.suffix == ".yaml"):
                done.append(f"{what} {path.parent.name}")
            return do(*args, **kwargs)

        return noting

    with patch.object(Path, "rename", noted("put", Path.rename)):
        keep(tmp_path, all_three(), [], KEY)
    # First of all what a version has to understand: `requires` is beside the folder.
    assert done == [f"put {tmp_path.name}", "put resources", "put secret", "put llm", "put agent"]
    done.clear()
    with patch.object(Path, "unlink", noted("remove", Path.unlink)):
        keep(tmp_path, [], [KEYS, SMALL, DEPLOYER], KEY)
    assert done == ["remove agent", "remove llm", "remove secret"]


@pytest.mark.parametrize("at", range(21))
def test_a_disk_that_takes_no_more_changes_nothing(tmp_path: Path, at: int) -> None:
    """Whichever of the calls it is that fails."""
    keep(tmp_path, [*all_three(), *some(secret("old"))], [], KEY)
    before = content(tmp_path)
    wanted = [
        *some(agent(description="Other"), llm(model="other"), secret(API_KEY="another-value"), secret("new"))
    ]
    calls = 0

    def failing[**P, T](do: Callable[P, T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))
            return do(*args, **kwargs)

        return call

    with (
        patch.object(os, "fsync", failing(os.fsync)),
        patch.object(Path, "rename", failing(Path.rename)),
        patch("os.open", failing(os.open)),
        pytest.raises(NotKeptError, match=r"No space left on device.*; nothing was changed"),
    ):
        keep(tmp_path, wanted, [ResourceId("secret", "old")], KEY)
    assert content(tmp_path) == before


def test_what_is_no_file_at_a_resources_place_gives_way(tmp_path: Path) -> None:
    keep(tmp_path, all_three(), [], KEY)
    agents, models = (folder_of(tmp_path) / kind for kind in ("agent", "llm"))
    endless = models / "small.yaml"
    for path in (agents / "deployer.yaml", endless):
        path.unlink()
    os.mkfifo(agents / "deployer.yaml")
    os.mkfifo(agents / "other.yaml")
    endless.symlink_to("/dev/zero")
    keep(tmp_path, all_three(), [ResourceId("agent", "other")], KEY)
    kept = ResourceFiles().read(tmp_path)
    assert (set(kept.resources), kept.problems) == ({DEPLOYER, SMALL, KEYS}, {})
    assert Path("/dev/zero").is_char_device()


def test_what_a_killed_supervisor_has_left_is_removed(tmp_path: Path) -> None:
    keep(tmp_path, all_three(), [], KEY)
    before = content(tmp_path)
    for folder in ("resources", "resources/agent"):
        (tmp_path / folder / ".deployer.yaml.0011aabb.tmp").write_text("half")
    (tmp_path / "resources" / "agent" / ".mine").write_text("stays")
    remove_leftovers(tmp_path)
    assert content(tmp_path) == before | {"resources/agent/.mine": b"stays"}
    remove_leftovers(tmp_path / "nowhere")


def test_a_directory_that_is_not_to_be_trusted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(NotKeptError, match=r"is writable for every user.*nothing was changed"):
        keep(tmp_path / "state", all_three(), [], KEY)
    assert content(tmp_path / "state") == {}
