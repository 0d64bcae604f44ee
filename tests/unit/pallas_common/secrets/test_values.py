"""Secrets that are known by value: found in every form, gone from every line, and taken from where they are kept."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pallas_common.logs.records import record_line
from pallas_common.logs.setup import RecordFormatter
from pallas_common.secrets.values import KnownSecrets, secrets_in
from pallas_registry.configured_secrets import configured_secrets
from support.worker.secrets import leaked

SECRET = 'pa$$ "wörd"/1+2\\3'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        *(base64.b64encode(b"x" * n + SECRET.encode()).decode() for n in range(4)),
        *(base64.urlsafe_b64encode(b"user:" + SECRET.encode() + b"y" * n).decode() for n in range(3)),
    ],
)
def test_a_secret_is_found_in_whatever_form(written: str) -> None:
    known = KnownSecrets([SECRET, "short"])
    assert known.may_be_in(f"a {written} b")
    struck = known.strike(f"a {written} short b")
    assert "[redacted]" in struck
    assert struck.startswith("a ")
    assert struck.endswith(" short b")
    assert leaked(struck, [SECRET]) == []


@settings(max_examples=40, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=8, max_size=20),
    st.sampled_from(["{}", "x{}", '"{}"', "é{}\n"]),
)
def test_no_line_holds_one_wherever_it_stood(secret: str, around: str) -> None:
    text = around.format(secret)
    record = {
        "message": text,
        "list": [text, {text: 1}],
        "bytes": text.encode(),
        "object": Path(text),
        "base64": base64.b64encode(b"ab" + secret.encode()),
    }
    line = record_line(record, KnownSecrets([secret]))
    assert isinstance(json.loads(line), dict)
    if secret not in "".join(record):
        said = json.dumps(json.loads(line), ensure_ascii=False).replace("[redacted]", "")
        assert secret not in said
        assert json.dumps(secret)[1:-1].encode() not in line.replace(b"[redacted]", b"")


def test_a_number_that_is_a_secret_leaves_the_line_whole() -> None:
    line = record_line({"message": "m", "pin": 12345678, "pid": 123}, KnownSecrets(["12345678"]))
    assert json.loads(line) == {"message": "m", "pin": "[redacted]", "pid": 123}


def test_the_log_format_takes_them_out_of_messages_fields_and_tracebacks() -> None:
    formatter = RecordFormatter({"agent": "demo"}, KnownSecrets(["hunter2-hunter2"]))
    try:
        raise ValueError("no hunter2-hunter2")  # noqa: TRY301
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "got %s", ("hunter2-hunter2",), info)
    record.__dict__["field"] = {"deep": ["hunter2-hunter2"]}
    line = formatter.format(record)
    assert "hunter2" not in line
    said = json.loads(line)
    assert (said["message"], said["field"]) == ("got [redacted]", {"deep": ["[redacted]"]})
    assert said["exception"].endswith("ValueError: no [redacted]")


def test_secrets_are_found_by_their_names_and_in_urls() -> None:
    basic = base64.b64encode(b"user:pass-of-basic").decode()
    nested = {
        "openai": {"api_key": "key-of-openai", "base_url": "http://me:pass-of-url@llm"},
        "servers": [{"headers": {"Authorization": f"Basic {basic}", "X": "y"}}],
    }
    assert set(secrets_in(nested)) == {
        *("key-of-openai", "pass-of-url"),
        *(f"Basic {basic}", basic, "pass-of-basic"),
    }
    headers = {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=of-otlp%3D1, x-team=0123456789abcdef,x-tenant=demo-tenant"
    }
    assert set(secrets_in(headers)) == {"of-otlp=1", "0123456789abcdef"}
    circle: list[object] = [{"password": "in the circle"}]
    circle.append(circle)
    assert list(secrets_in(circle)) == ["in the circle"]


def test_files_and_environment_name_them(tmp_path: Path) -> None:
    (tmp_path / "fastagent.secrets.yaml").write_text(
        "openai: {api_key: '${KEY}'}\nanthropic: {api_key: '${NONE:by-default}'}\nhf: {api_key: in-the-file}\n"
    )
    (tmp_path / "fastagent.config.yaml").write_text("mcp: [: not YAML")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "fast-agent.yaml").write_text("groq: {api_key: in-the-home}\n")
    environ = {"KEY": "of-the-environment", "GITEA_TOKEN": "token-of-gitea", "FAST_AGENT_HOME": "home"}
    expected = {"of-the-environment", "by-default", "in-the-file", "token-of-gitea", "in-the-home"}
    assert set(configured_secrets(tmp_path, environ)) == expected
    (tmp_path / "fastagent.secrets.yaml").write_text("hf: {api_key: changed-in-the-file}\n")
    assert set(configured_secrets(tmp_path, {})) == {"changed-in-the-file"}
