"""A worker under malformed requests: each gets a clear answer of the right kind, and the next good one is served.

The corpus is a table (`bad_input`) and what Hypothesis makes of the tools' published schemas, both the same in every
run. One worker process takes all of it, with a secret in its environment and a bearer in every request.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.worker.bad_input import (
    ERAS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Answer,
    Attempt,
    Expected,
    encode,
    headers,
    request,
    send,
    send_raw,
    table,
    tool_call,
)
from support.worker.census import until
from support.worker.process import RunningWorker, run_worker
from support.worker.project import project

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "sk-secret-of-the-environment-1234567890"
BEARER = "token-of-the-caller-1234567890"
LEAKS = re.compile(rf"Traceback|\.py\b|site-packages|pydantic|<class|object at 0x|{SECRET}|{BEARER}")
"""What no answer may have in it, unless it was in the request: what is not known there may be quoted."""


def leaked(answer: str, request: bytes) -> list[str]:
    """What the answer tells that nobody sent."""
    return [found for found in LEAKS.findall(answer) if found.encode() not in request]


CORPUS = table()
EXAMPLES = 50
"""How many examples Hypothesis makes for each test and era."""

FUZZED_ERAS = ("modern", "legacy")

fuzzed = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
"""The same examples in every run."""

numbers = itertools.count()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorker]:
    """One worker for all tests; at the end it is the same process, and it has logged no error and no secret."""
    environment = {"OPENAI_API_KEY": SECRET}
    with run_worker(project(tmp_path_factory.mktemp("project")), environment=environment) as running:
        process = psutil.Process(running.process.pid)
        started, descriptors = process.create_time(), process.num_fds()
        yield running
        assert running.process.poll() is None
        assert psutil.Process(running.process.pid).create_time() == started
        until(running, lambda _: process.num_fds() <= descriptors + 5)
        assert not [record for record in running.records if record["level"] in ("ERROR", "CRITICAL")]
        assert not [record for record in running.records if "traceback" in record]
        logged = json.dumps(running.records)
        assert SECRET not in logged
        assert BEARER not in logged
        assert running.stop() == 0


@pytest.fixture(scope="module")
def schema(worker: RunningWorker) -> dict[str, Any]:
    """The published schema of `send_message`, without that of a history's rows: malformed ones are skipped."""
    listing = Attempt(
        "list",
        Expected(200),
        encode(request("modern", "tools/list", {})),
        headers("modern", "tools/list", None),
    )
    tools = {tool["name"]: tool for tool in send(worker.port, listing).message["result"]["tools"]}
    published: dict[str, Any] = tools["send_message"]["inputSchema"]
    published["properties"]["history"].pop("items")
    return published


def check(worker: RunningWorker, attempt: Attempt) -> Answer:
    """Send it with a bearer, hold the answer against what is expected, then make a good call."""
    expected = attempt.expected
    bearing = (*attempt.headers, ("Authorization", f"Bearer {BEARER}"))
    answer = send(
        worker.port, Attempt(attempt.name, expected, attempt.body, bearing, attempt.method, attempt.raw)
    )
    assert answer.status == expected.status, (attempt, answer)
    assert not leaked(answer.text, attempt.body), (attempt, answer)
    if expected.codes:
        assert answer.code in expected.codes, (attempt, answer)
        assert answer.message["error"]["message"], (attempt, answer)
    if expected.tool_error:
        assert expected.words in tool_error(answer), (attempt, answer)
    elif expected.status and attempt.method != "HEAD":
        assert expected.words in answer.text, (attempt, answer)
        assert answer.text.strip(), (attempt, answer)
    check_good(worker)
    return answer


def tool_error(answer: Answer) -> str:
    """The text of a result that says that the tool failed."""
    result = answer.message["result"]
    assert result["isError"] is True, answer
    (block,) = result["content"]
    assert block["text"]
    return str(block["text"])


def check_good(worker: RunningWorker) -> None:
    """A good call is answered, in each era in turn."""
    number = next(numbers)
    era, said = ERAS[number % len(ERAS)], f"good call {number}"
    body = encode(tool_call(era, "demo", {"message": said}))
    answer = send(worker.port, Attempt("good", Expected(200), body, headers(era, name="demo")))
    assert answer.status == 200, answer
    assert answer.message["result"]["content"] == [{"type": "text", "text": said}], answer


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len(CORPUS) >= 300
    assert len({attempt.name for attempt in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("attempt", CORPUS, ids=lambda attempt: attempt.name[:80])
def test_a_malformed_request_of_the_table(worker: RunningWorker, attempt: Attempt) -> None:
    answer = check(worker, attempt)
    if answer.status == 405:
        assert answer.headers["allow"] == "POST"


def test_a_head_that_is_too_large(worker: RunningWorker) -> None:
    """It is refused before it is read, so that the answer may be lost with the connection."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost:1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n"
    assert send_raw(worker.port, head).status in (0, 400)
    check_good(worker)


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
base64_text = st.sampled_from(["aGk=", "", "!", "aGk", "data:x"]) | st.text(max_size=8)
images = st.lists(
    st.fixed_dictionaries(
        {}, optional={"data": base64_text | json_values, "mime_type": st.just("image/png") | json_values}
    )
    | json_values,
    max_size=3,
)
rows = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "system", ""]) | json_values,
            "content": st.text() | json_values,
            "images": images | json_values,
        },
    )
    | json_values,
    max_size=4,
)
some_arguments = st.fixed_dictionaries(
    {},
    optional={
        "message": st.text(min_size=1) | json_values,
        "images": images | json_values,
        "history": rows | json_values,
        "conversation_id": st.text() | json_values,
    },
)
arguments = some_arguments | st.builds(
    lambda first, second: first | second, some_arguments, st.dictionaries(st.text(), json_values)
)


@pytest.mark.parametrize("era", FUZZED_ERAS)
@fuzzed
@given(arguments=arguments)
def test_arguments_that_do_not_fit_the_published_schema(
    worker: RunningWorker, schema: dict[str, Any], era: str, arguments: dict[str, Any]
) -> None:
    """What the schema refuses is an error of the tool; what it allows is answered, by an agent or by an error."""
    given_arguments = {
        key: value for key, value in arguments.items() if value is not None or key == "message"
    }
    fits = jsonschema.Draft202012Validator(schema).is_valid(given_arguments)
    attempt = Attempt(
        "fuzzed arguments", Expected(200), encode(tool_call(era, "send_message", arguments)), headers(era)
    )
    answer = check(worker, attempt)
    if not fits:
        assert tool_error(answer), arguments
    assert answer.message["result"]["content"], arguments


bad_members = st.one_of(
    st.tuples(st.just("jsonrpc"), json_values.filter(lambda value: value != "2.0")),
    st.tuples(st.just("id"), json_values.filter(lambda value: type(value) not in (int, str))),
    st.tuples(st.just("method"), json_values.filter(lambda value: not isinstance(value, str))),
    st.tuples(
        st.just("params"), json_values.filter(lambda value: value is not None and not isinstance(value, dict))
    ),
)


@pytest.mark.parametrize("era", FUZZED_ERAS)
@fuzzed
@given(wrong=bad_members, more=st.dictionaries(st.text(min_size=8), json_values, max_size=2))
def test_envelopes_with_a_bad_member(
    worker: RunningWorker, era: str, wrong: tuple[str, Any], more: dict[str, Any]
) -> None:
    message = more | tool_call(era, "send_message", {"message": "x"}) | dict([wrong])
    attempt = Attempt("fuzzed envelope", Expected(400, (INVALID_REQUEST,)), encode(message), headers(era))
    answer = check(worker, attempt)
    assert answer.message["id"] == (None if wrong[0] == "id" else 7)


@pytest.mark.parametrize("era", FUZZED_ERAS)
@fuzzed
@given(
    body=st.binary(max_size=200) | json_values.filter(lambda value: not isinstance(value, dict)).map(encode)
)
def test_bodies_of_any_bytes(worker: RunningWorker, era: str, body: bytes) -> None:
    expected = Expected(400, (PARSE_ERROR, INVALID_REQUEST))
    check(worker, Attempt("fuzzed body", expected, body, headers(era)))


@pytest.mark.parametrize("era", FUZZED_ERAS)
@fuzzed
@given(
    method=st.sampled_from(
        ["tools/call", "tools/list", "prompts/get", "initialize", "server/discover", "ping"]
    )
    | st.text(max_size=20),
    params=st.dictionaries(
        st.sampled_from(["name", "arguments", "cursor", "_meta", "uri"]) | st.text(), json_values
    ),
)
def test_methods_and_params_of_any_kind(
    worker: RunningWorker, era: str, method: str, params: dict[str, Any]
) -> None:
    """Whatever is asked, the answer is a result or an error that is the client's."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    bearing = (*headers(era, "tools/call", None), ("Authorization", f"Bearer {BEARER}"))
    answer = send(worker.port, Attempt("fuzzed request", Expected(200), encode(message), bearing))
    assert answer.status in (200, 400, 404), (message, answer)
    assert not leaked(answer.text, encode(message)), (message, answer)
    theirs = (METHOD_NOT_FOUND, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION)
    assert "result" in answer.message or answer.code in theirs, (message, answer)
    check_good(worker)


@fuzzed
@given(version=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_versions_that_nobody_serves(worker: RunningWorker, version: str) -> None:
    body = encode(tool_call("modern", "send_message", {"message": "x"}))
    expected = Expected(400, (HEADER_MISMATCH, UNSUPPORTED_VERSION))
    check(worker, Attempt("fuzzed version", expected, body, headers("modern", MCP_Protocol_Version=version)))
