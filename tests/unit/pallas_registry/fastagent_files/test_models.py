"""Our keys of `fastagent.config.yaml`: strictly read; the others are not ours to judge."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_common.problems import ConfigurationError
from pallas_common.protocol.agent.llm import ModelCapabilities
from pallas_registry.deployment.model import ModelSettings
from pallas_registry.fastagent_files.models import parse_model_settings, read_model_settings

PATH = Path("fastagent.config.yaml")


def parse(text: str, **environ: str) -> ModelSettings:
    return parse_model_settings(text.encode(), PATH, environ)


def test_no_file_means_defaults(tmp_path: Path) -> None:
    assert read_model_settings(tmp_path) == ModelSettings()


def test_the_reference_example(tmp_path: Path) -> None:
    (tmp_path / PATH).write_text("""\
default_model: openai.my-model-name
model_capabilities:
  vision: true
  context_window: 200000
  max_output_tokens: 32000
logger:
  level: debug
  type: file
""")
    assert read_model_settings(tmp_path) == ModelSettings(
        default_model="openai.my-model-name",
        capabilities=ModelCapabilities(vision=True, context_window=200_000, max_output_tokens=32_000),
        log_level="DEBUG",
    )


def test_capabilities_have_defaults_once_they_are_declared() -> None:
    assert parse("model_capabilities: {}").capabilities == ModelCapabilities(
        vision=False, context_window=131_072, max_output_tokens=16_384
    )
    assert parse("default_model: a.b").capabilities is None


@pytest.mark.parametrize("text", ["", "# nothing", "default_model:", "logger:", "logger: {level: }"])
def test_what_is_left_open_is_none(text: str) -> None:
    assert parse(text) == ModelSettings()


@pytest.mark.parametrize(
    "text",
    [
        "mcp: {servers: {a: {url: x, forward_inbound_auth: true}}}",
        "logger: {progress_display: false, progress_display: true}",
        "logger: text",
        "otel: !weird {a: b}",
        "mcp: 1\nmcp: 2",
        "1: x",
        "base: &b {level: x}\nother:\n  <<: *b",
    ],
)
def test_what_belongs_to_fast_agent_is_left_alone(text: str) -> None:
    assert parse(text) == ModelSettings()


@pytest.mark.parametrize(
    ("text", "line", "field", "part"),
    [
        ("x: 1\ndefault_model: 5", 2, "default_model", "is a whole number, not text"),
        ("default_model: ''", 1, "default_model", "is not a model; write `provider.model-name`"),
        ("default_model: a b", 1, "default_model", "is not a model"),
        ("default_model: a.b\ndefault_model: c.d", 2, "default_model", "is given twice, first on line 1"),
        ("model_capabilities:", 1, "model_capabilities", "is empty, not a mapping"),
        ("model_capabilities: [vision]", 1, "model_capabilities", "is a list, not a mapping"),
        ("model_capabilities: {visoin: true}", 1, "model_capabilities.visoin", "did you mean `vision`?"),
        ("model_capabilities: {vision: 1}", 1, "model_capabilities.vision", "write `true` or `false`"),
        ("model_capabilities: {vision: 'yes'}", 1, "model_capabilities.vision", "is text, not a truth value"),
        ("model_capabilities:\n  context_window: 0", 2, "model_capabilities.context_window", "out of range"),
        (
            "model_capabilities: {context_window: 1_000}",
            1,
            "model_capabilities.context_window",
            "plain decimal",
        ),
        (
            "model_capabilities: {max_output_tokens: -1}",
            1,
            "model_capabilities.max_output_tokens",
            "out of range",
        ),
        ("logger:\n  level: loud", 2, "logger.level", "'loud' is not a log level; use one of debug, info"),
        ("logger: {level: off}", 1, "logger.level", "is a truth value, not text"),
    ],
)
def test_what_our_keys_may_not_say(text: str, line: int, field: str, part: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    [problem] = caught.value.problems
    assert (problem.file, problem.line, problem.field) == ("fastagent.config.yaml", line, field)
    assert part in str(problem)


def test_all_problems_come_in_one_run() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse("logger: {level: x}\ndefault_model: 5\nmodel_capabilities: {a: 1, vision: 2}")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3, 3]


@pytest.mark.parametrize(("text", "line"), [("- a", 1), ("a: [", 1), ("a: b: c", 1)])
def test_what_is_no_mapping_is_refused(text: str, line: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    assert caught.value.problems[0].line == line


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("${MODEL}", "openai.gpt-5"),
        ("openai.${NAME:gpt-4.1}", "openai.gpt-4.1"),
        ("${MODEL:x}", "openai.gpt-5"),
        ("${UNSET}", "${UNSET}"),
        ("${UNSET:}a.b", "a.b"),
    ],
)
def test_variables_are_expanded_as_fast_agent_does(written: str, model: str) -> None:
    assert parse(f"default_model: '{written}'", MODEL="openai.gpt-5").default_model == model


def test_beginnings_of_variables_without_number_do_not_keep_the_reader() -> None:
    """This would take an hour if each of them were followed to the end of the text."""
    model = "${" * (1 << 18)
    assert parse(f"default_model: '{model}'").default_model == model


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / PATH).mkdir()
    with pytest.raises(ConfigurationError, match="is a folder, not a file"):
        read_model_settings(tmp_path)


@given(
    st.one_of(st.binary(), st.text().map(lambda text: f"default_model: {text}".encode("utf-8", "replace")))
)
def test_the_reader_raises_nothing_else(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        parse_model_settings(data, PATH, {})
