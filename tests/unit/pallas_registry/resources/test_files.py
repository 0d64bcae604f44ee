"""Resources as files: what is read, what is refused, and that nothing is read twice."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from pallas_common.problems import ConfigurationError
from pallas_registry.resources import files
from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.files import KEY_FILE, KeptResources, ResourceFiles, file_of, folder_of
from pallas_registry.resources.model import KINDS, Metadata, Resource, ResourceId
from support.supervisor.declared import agent, llm, secret

if TYPE_CHECKING:
    from pathlib import Path

DEPLOYER, SMALL, KEYS = (
    ResourceId("agent", "deployer"),
    ResourceId("llm", "small"),
    ResourceId("secret", "keys"),
)
SECRET = Resource(id=KEYS, spec={"data": {"A": "value"}})
TEXTS = {DEPLOYER: agent(), SMALL: llm(), KEYS: secret()}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with three resources."""
    for kind in KINDS:
        (folder_of(tmp_path) / kind).mkdir(mode=0o700, parents=True)
    tmp_path.chmod(0o700)
    for id_, text in TEXTS.items():
        write(tmp_path, id_, text)
    return tmp_path


def write(state: Path, id_: ResourceId, text: str) -> Path:
    path = file_of(state, id_)
    path.write_text(text)
    path.chmod(0o600)
    return path


def problem(kept: KeptResources, id_: ResourceId) -> str:
    [found] = kept.problems[id_]
    assert id_ not in kept.resources
    assert found.remedy
    return str(found)


def test_all_that_is_kept_is_read(state: Path) -> None:
    kept = ResourceFiles().read(state)
    assert set(kept.resources) == set(TEXTS)
    assert kept.problems == {}
    assert kept.resources[SMALL].file == str(file_of(state, SMALL))


def test_a_resource_of_a_kind_that_is_not_known_is_an_error_of_that_resource(state: Path) -> None:
    folder = state / "resources" / "policy"
    folder.mkdir(mode=0o700)
    (folder / "strict.yaml").write_text("kind: policy\n")
    kept = ResourceFiles().read(state)
    assert set(kept.resources) == set(TEXTS)
    [(id_, [found])] = kept.problems.items()
    assert str(id_) == "policy/strict"
    assert "is of the kind 'policy', which this version" in str(found)


def test_where_nothing_is_kept_there_is_nothing(tmp_path: Path) -> None:
    for directory in (None, tmp_path / "state", tmp_path):
        assert ResourceFiles().read(directory) == KeptResources()
    assert list(tmp_path.iterdir()) == []


def test_only_what_has_changed_is_read_again(state: Path) -> None:
    reader = ResourceFiles()
    before, marks = reader.read(state), reader.marks(state)
    with patch.object(files, "read_resources", wraps=read_resources) as reading:
        assert reader.read(state).resources[SMALL] is before.resources[SMALL]
        assert reader.marks(state) == marks
        assert reading.call_count == 0
        write(state, SMALL, llm(model="another"))
        assert reader.marks(state) != marks
        after = reader.read(state)
        assert [call.args[1] for call in reading.call_args_list] == [str(file_of(state, SMALL))]
    assert after.resources[SMALL].spec["model"] == "another"
    file_of(state, SMALL).unlink()
    assert set(reader.read(state).resources) == {DEPLOYER, KEYS}


def test_what_was_just_written_is_not_read(state: Path) -> None:
    reader = ResourceFiles()
    written = reader.read(state).resources[SMALL].with_spec({"type": "openai", "model": "written"})
    write(state, SMALL, llm(model="written"))
    reader.learn(state, [written])
    with patch.object(files, "read_resources") as reading:
        assert reader.read(state).resources[SMALL].spec["model"] == "written"
    assert not reading.called


def test_a_file_that_cannot_be_understood_is_a_problem_of_its_own(state: Path) -> None:
    write(state, SMALL, "kind: llm\nspec: [")
    kept = ResourceFiles().read(state)
    assert "small.yaml:2: not valid YAML" in problem(kept, SMALL)
    assert set(kept.resources) == {DEPLOYER, KEYS}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no resource"),
        (f"{secret('one')}\n---\n{secret('two')}", "holds 2 resources"),
        (secret("other"), "describes 'secret/other', and is where 'secret/keys' is kept"),
        (llm("keys"), "describes 'llm/keys', and is where 'secret/keys' is kept"),
    ],
)
def test_a_file_holds_the_resource_that_it_is_named_after(state: Path, text: str, message: str) -> None:
    write(state, KEYS, text)
    assert message in problem(ResourceFiles().read(state), KEYS)


def test_a_name_of_any_bytes_is_a_problem_that_can_be_told(state: Path) -> None:
    folder = folder_of(state) / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(os.fsencode(folder) + b"/\xff\xfe.yaml", os.O_CREAT | os.O_WRONLY, 0o600)
    os.close(descriptor)
    problems = ResourceFiles().read(state).problems
    found = ResourceId("agent", "\\xff\\xfe")
    assert "holds no resource" in str(problems[found][0]).encode().decode()


def test_files_whose_names_are_none_are_problems(state: Path) -> None:
    write(state, ResourceId("secret", "no name"), secret("no name"))
    kept = ResourceFiles().read(state)
    assert set(kept.resources) == set(TEXTS)
    assert ResourceId("secret", "no name") in kept.problems


@pytest.mark.parametrize(
    ("id_", "mode", "message"),
    [
        (KEYS, 0o640, "may be read by other users"),
        (KEYS, 0o604, "may be read by other users"),
        (DEPLOYER, 0o620, "may be written by other users"),
        (DEPLOYER, 0o602, "may be written by other users"),
    ],
)
def test_what_others_may_do_with_a_file(state: Path, id_: ResourceId, mode: int, message: str) -> None:
    file_of(state, id_).chmod(mode)
    assert message in problem(ResourceFiles().read(state), id_)


def test_what_holds_no_secret_may_be_read_by_others(state: Path) -> None:
    file_of(state, DEPLOYER).chmod(0o644)
    assert DEPLOYER in ResourceFiles().read(state).resources


def test_a_file_of_another_user_is_refused(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:  # whose files everybody may trust
        os.chown(file_of(state, SMALL), 4243, -1)
        monkeypatch.setattr(os, "getuid", lambda: 4242)
        assert "belongs to another user (uid 4243)" in problem(ResourceFiles().read(state), SMALL)
        os.chown(folder_of(state), 4243, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 4242)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        ResourceFiles().read(state)


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_file_is_refused(state: Path, what: str) -> None:
    path = file_of(state, SMALL)
    path.rename(path.with_suffix(".real"))
    match what:
        case "link":
            path.symlink_to(path.with_suffix(".real"))
        case "folder":
            path.mkdir()
        case _:
            os.mkfifo(path, 0o600)
    assert ("is a symbolic link" if what == "link" else "is not a file") in problem(
        ResourceFiles().read(state), SMALL
    )


def test_what_is_not_ours_is_passed_over(state: Path) -> None:
    for name in (".small.yaml.0011.tmp", "small.yaml~", ".hidden.yaml", "small.yml"):
        (folder_of(state) / "llm" / name).write_text("{")
    (folder_of(state) / "tenants").mkdir()
    assert set(ResourceFiles().read(state).resources) == set(TEXTS)


@pytest.mark.parametrize("part", ["", "resources", "resources/llm"])
def test_a_folder_that_others_may_write_to_is_not_to_be_trusted(state: Path, part: str) -> None:
    """Or else a reload would stop all that is declared in it, or take over what somebody else has put there."""
    (state / part).chmod(0o777)
    with pytest.raises(ConfigurationError, match="is writable for every user; run `chmod o-w"):
        ResourceFiles().read(state)
    assert ResourceFiles().marks(state) == frozenset()


def test_a_folder_that_is_none_is_an_error(state: Path) -> None:
    folder = folder_of(state) / "llm"
    folder.rename(state / "elsewhere")
    folder.symlink_to(state / "elsewhere")
    with pytest.raises(ConfigurationError, match="is a symbolic link, not a folder"):
        ResourceFiles().read(state)
    folder.unlink()
    folder.touch()
    with pytest.raises(ConfigurationError, match="is not a folder"):
        ResourceFiles().read(state)


def test_a_folder_that_cannot_be_read_is_an_error(state: Path) -> None:
    with (
        patch("os.scandir", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(ConfigurationError, match="cannot be read: Permission denied"),
    ):
        ResourceFiles().read(state)


def test_a_digest_is_that_of_one_value_of_one_version_of_one_secret() -> None:
    """Else who may write a secret could compare guesses with what is shown of another's."""
    kept = KeptResources(key=b"k" * 32)
    noted = Metadata(uid="u", owner="ada", version=1, created_at="t", updated_at="t")

    def shown(key: str = "A", value: str = "one", **changes: Any) -> str:
        secret = Resource(
            id=ResourceId("secret", "k"), spec={"data": {key: value}}, metadata=replace(noted, **changes)
        )
        return kept.digest(secret, key)

    found = [shown(), shown(uid="another"), shown(version=2), shown(key="B"), shown(value="two")]
    assert len(set(found)) == 5
    assert shown() == found[0]


def test_digests_are_keyed_and_the_key_is_kept(state: Path) -> None:
    one = ResourceFiles().read(state)
    assert one.digest(SECRET, "A") == ResourceFiles().read(state).digest(SECRET, "A")
    assert one.digest(SECRET, "A") != KeptResources(key=b"k" * 32).digest(SECRET, "A")
    assert one.digest(SECRET, "A").startswith("hmac-sha256:")
    path = folder_of(state) / KEY_FILE
    path.write_text((b"k" * 32).hex())
    path.chmod(0o600)
    again = ResourceFiles().read(state)
    assert again.key == b"k" * 32
    assert again.fingerprint("other") != again.fingerprint("value")
    path.chmod(0o644)
    assert ResourceFiles().read(state).key == one.key
    path.chmod(0o600)
    path.write_text("short")
    assert ResourceFiles().read(state).key == one.key
    with (
        patch.object(files, "read_file", side_effect=OSError(24, "Too many open files")),
        pytest.raises(ConfigurationError, match="key: cannot be read: Too many open files"),
    ):
        ResourceFiles().read(state)
