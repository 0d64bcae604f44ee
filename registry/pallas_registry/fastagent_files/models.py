"""Our keys of fast-agent's settings, strictly read; every other key of that file is left to fast-agent.

Knows `default_model`, `model_capabilities` and `logger.level`. Reads the file that fast-agent would.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pallas_common.logs.levels import LEVEL_NAMES, level_name
from pallas_common.problems import ConfigurationError, Problem, quoted
from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_common.secrets.references import expanded
from pallas_registry.deployment.model import ModelSettings
from pallas_registry.fastagent_files.discovery import settings_file
from pallas_registry.fastagent_files.paths import HOME_VARIABLE
from pallas_registry.reading.fields import Fields
from pallas_registry.reading.files import read_file
from pallas_registry.reading.nodes import compose
from pallas_registry.reading.rules import Complaint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pallas_registry.reading.fields import Rule

FILE_NAME = "fastagent.config.yaml"
"""What the file is called where there is none, or where it is not known which one."""

_CAPABILITIES = ("vision", "context_window", "max_output_tokens")


def read_model_settings(directory: Path, environ: Mapping[str, str] | None = None) -> ModelSettings:
    """What fast-agent's settings say to Pallas, with `directory` as the working directory; the defaults without any.

    `${NAME}` and `${NAME:default}` in texts stand for variables of `environ`, as fast-agent expands them: one
    that is not set and has no default stays as it is written.

    Raises:
        ConfigurationError: there are several, the file cannot be read or is not YAML, or one of our keys is wrong.
    """
    environ = environ or {}
    path = settings_file(directory, environ.get(HOME_VARIABLE))
    data = None if path is None else read_file(path)
    if path is None or data is None:
        return ModelSettings()
    return replace(parse_model_settings(data, path, environ), file=path)


def parse_model_settings(data: bytes, path: Path, environ: Mapping[str, str]) -> ModelSettings:
    """The settings in `data`, the content of the file at `path`, which names the file in problems.

    Raises:
        ConfigurationError: not YAML, or one of our keys is wrong; all problems, in file order.
    """
    file = str(path)
    root = compose(data, file)
    if root is None:
        return ModelSettings()
    problems: list[Problem] = []
    fields = Fields(root, file=file, field="", line=1, problems=problems)
    if not fields.is_mapping:
        raise ConfigurationError(problems)
    settings = ModelSettings(
        default_model=_model(fields, environ),
        capabilities=_capabilities(fields),
        log_level=_level(fields, environ),
    )
    ours = [problem for problem in problems if _is_ours(problem.field)]
    if ours:
        raise ConfigurationError(sorted(ours, key=lambda problem: problem.line or 0))
    return settings


def _model(fields: Fields, environ: Mapping[str, str]) -> str | None:
    def rule(value: str) -> Complaint | None:
        if value and not re.search(r"\s", value):
            return None
        return Complaint(
            f"{quoted(value)} is not a model", "write `provider.model-name`, as in `openai.gpt-5`"
        )

    if fields.is_empty("default_model"):
        return None
    return _read_expanded(fields, "default_model", rule, environ)


def _level(fields: Fields, environ: Mapping[str, str]) -> str | None:
    def rule(value: str) -> Complaint | None:
        if level_name(value):
            return None
        known = ", ".join(name.lower() for name in LEVEL_NAMES)
        return Complaint(f"{quoted(value)} is not a log level", f"use one of {known}")

    section = fields.section("logger")
    if section is None or not section.is_mapping or section.is_empty("level"):
        return None
    level = _read_expanded(section, "level", rule, environ)
    return level_name(level) if level else None


def _capabilities(fields: Fields) -> ModelCapabilities | None:
    section = fields.section("model_capabilities")
    if section is None:
        return None
    section.only(_CAPABILITIES)
    defaults = ModelCapabilities()
    return ModelCapabilities(
        vision=section.truth("vision") or False,
        context_window=section.whole_number("context_window", 1) or defaults.context_window,
        max_output_tokens=section.whole_number("max_output_tokens", 1) or defaults.max_output_tokens,
    )


def _read_expanded(fields: Fields, key: str, rule: Rule, environ: Mapping[str, str]) -> str | None:
    value = fields.text(key, lambda text: rule(expanded(text, environ)))
    return None if value is None else expanded(value, environ)


def _is_ours(field: str) -> bool:
    return field == "logger.level" or field.split(".")[0] in {"default_model", "model_capabilities"}
