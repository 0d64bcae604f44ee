"""The settings are read from where fast-agent would read them: compared with what it does itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fast_agent.core.exceptions import ConfigFileError
from fast_agent.home import discover_config_files, resolve_fast_agent_home

from pallas_common.problems import ConfigurationError
from pallas_registry.fastagent_files.discovery import settings_file
from pallas_registry.fastagent_files.models import read_model_settings
from pallas_registry.fastagent_files.paths import FILES

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, SECRETS = "fastagent.config.yaml", "fast-agent.yaml", "fastagent.secrets.yaml"


@pytest.mark.parametrize("home", [None, "elsewhere", "."])
@pytest.mark.parametrize(
    "files",
    [
        (),
        *((name,) for name in FILES),
        (OLD, NEW),
        (OLD, SECRETS, "fast-agent.secrets.yaml"),
        (SECRETS, "fast-agent.secrets.yaml"),
        (f".fast-agent/{NEW}", OLD),
        (f".fast-agent/{NEW}", OLD, NEW),
        (f".fast-agent/{OLD}", f".fast-agent/{NEW}", OLD),
        (f".fast-agent/{SECRETS}", OLD),
        (f"elsewhere/{OLD}", f".fast-agent/{NEW}", OLD),
    ],
)
def test_it_is_the_file_that_fast_agent_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], home: str | None
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.delenv("FAST_AGENT_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("FAST_AGENT_HOME", home)
    try:
        expected = discover_config_files(cwd=tmp_path, home=resolve_fast_agent_home(cwd=tmp_path)).config_path
    except ConfigFileError:
        with pytest.raises(ConfigurationError, match=r"lies beside .*; keep one of them"):
            settings_file(tmp_path, home)
    else:
        found = settings_file(tmp_path, home)
        assert (found and found.resolve()) == expected


def test_our_keys_are_read_there(tmp_path: Path) -> None:
    (tmp_path / NEW).write_text("default_model: openai.new\n")
    settings = read_model_settings(tmp_path, {})
    assert (settings.default_model, settings.file) == ("openai.new", tmp_path / NEW)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / OLD).write_text("default_model: openai.home\n")
    assert read_model_settings(tmp_path, {"FAST_AGENT_HOME": "home"}).default_model == "openai.home"
