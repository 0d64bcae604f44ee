"""The one log format: structlog and plain logging come out alike, at the levels of the rules."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import os
import re
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import structlog
from structlog.testing import capture_logs

from pallas_common.logs.levels import Levels, level_name, levels
from pallas_common.logs.own_loggers import give_handler, own_logger
from pallas_common.logs.setup import THIRD_PARTY, configure_logging, get_logger
from pallas_common.problems import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


type Written = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back what `configure_logging` changes; fast-agent's logger begins as it is before fast-agent runs."""
    fast_agent = logging.getLogger("fast_agent")
    monkeypatch.setattr(fast_agent, "handlers", [])
    monkeypatch.setattr(fast_agent, "propagate", True)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = {name: logging.getLogger(name).level for name in ("pallas", "fast_agent", *THIRD_PARTY)}
    fast_agent.setLevel(logging.NOTSET)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, was in before.items():
        logging.getLogger(name).setLevel(was)
    give_handler(None)


@pytest.fixture
def written() -> Written:
    """Logging configured, and a way to the records that have been written since."""
    return configured()


def configured() -> Written:
    """Configure logging; calling the result yields the records that have been written since."""
    stream = io.StringIO()
    configure_logging(logging.StreamHandler(stream), Levels("DEBUG", "INFO"), {"agent": "jarvis", "pid": 7})

    def records() -> list[dict[str, Any]]:
        lines = stream.getvalue().splitlines()
        stream.truncate(0)
        stream.seek(0)
        return [json.loads(line) for line in lines]

    return records


def test_both_kinds_of_logger_come_out_alike(written: Written) -> None:
    structlog.get_logger("pallas.x").info("started", port=8201)
    get_logger("pallas.x").info("started", port=8201)
    logging.getLogger("pallas.x").info("started", extra={"port": 8201})
    get_logger("pallas.x").info("started", extra={"port": 8201})
    records = written()
    assert [list(record) for record in records] == [
        ["time", "level", "logger", "message", "agent", "pid", "port"]
    ] * 4
    for record in records:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", record.pop("time"))
        assert record == {
            "level": "INFO",
            "logger": "pallas.x",
            "message": "started",
            "agent": "jarvis",
            "pid": 7,
            "port": 8201,
        }


def test_arguments_are_put_into_the_message(written: Written) -> None:
    get_logger("pallas.x").info("%s of %d", "a", 2)
    logging.getLogger("pallas.x").info("%s of %d", "a", 2)
    get_logger("pallas.x").info("100%")
    assert [record["message"] for record in written()] == ["a of 2", "a of 2", "100%"]


def test_arguments_that_do_not_fit_lose_nothing() -> None:
    written = configured()  # within the test, as pytest's own handler would raise
    get_logger("pallas.x").info("%d", "a")
    logging.getLogger("pallas.x").info("%d", "a")
    assert [record["message"] for record in written()] == ["%d ('a',)"] * 2


def fail(message: str) -> NoReturn:
    raise ValueError(message)


def test_exceptions_come_last_and_on_the_same_line(written: Written) -> None:
    for log in (get_logger("pallas.x").exception, logging.getLogger("pallas.x").exception):
        try:
            fail("first\nsecond")
        except ValueError:
            log("failed")
    for record in written():
        assert list(record)[-1] == "exception"
        assert record["level"] == "ERROR"
        assert record["exception"].startswith("Traceback")
        assert record["exception"].endswith("ValueError: first\nsecond")


def test_no_exception_no_key(written: Written) -> None:
    logging.getLogger("pallas.x").error("m", exc_info=True)
    assert "exception" not in written()[0]


def test_an_exception_may_be_handed_over(written: Written) -> None:
    get_logger("pallas.x").warning("m", exc_info=ValueError("x"))
    assert written()[0]["exception"] == "ValueError: x"


def test_fields_cannot_pass_for_what_is_ours(written: Written) -> None:
    get_logger("pallas.x").info(
        "true", message="false", level="DEBUG", time="never", logger="y", exception="z"
    )
    record = written()[0]
    assert (record["message"], record["level"], record["logger"]) == ("true", "INFO", "pallas.x")
    assert (record["message_"], record["level_"], record["logger_"], record["exception_"]) == (
        "false",
        "DEBUG",
        "y",
        "z",
    )


def test_fields_may_have_the_names_of_logging_attributes(written: Written) -> None:
    get_logger("pallas.x").info("m", module="agents.a", name="n", args=[1], agent="research")
    record = written()[0]
    assert (record["module"], record["name"], record["args"]) == ("agents.a", "n", [1])
    assert record["agent"] == "research"


def test_handlers_see_the_fields_of_a_record() -> None:
    seen: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    configure_logging(Keep(), Levels("INFO", "INFO"), {})
    get_logger("pallas.x").info("m", agent="a", module="m")
    assert vars(seen[0])["agent"] == "a"


def test_bound_and_contextual_fields(written: Written) -> None:
    with structlog.contextvars.bound_contextvars(conversation_id="c"):
        get_logger("pallas.x").bind(server="s").info("m")
    record = written()[0]
    assert (record["conversation_id"], record["server"]) == ("c", "s")


def test_what_an_agent_binds_to_its_context_is_fields_and_nothing_else(written: Written) -> None:
    bound = {
        "extra": "e",
        "stacklevel": "s",
        "stack_info": 1,
        "exc_info": 1,
        "positional_args": "p",
        "event": "v",
    }
    with structlog.contextvars.bound_contextvars(**bound):
        get_logger("pallas.x").info("m %d", 5)
    record = written()[0]
    assert record["message"] == "m 5"
    assert {name: record[name] for name in bound} == bound


def test_a_field_may_be_called_extra(written: Written) -> None:
    structlog.get_logger("agents.a").warning("m", extra="more")
    assert written()[0]["extra"] == "more"


def test_who_captures_records_of_structlog_does_not_get_ours(written: Written) -> None:
    with capture_logs() as captured:
        get_logger("pallas.x").warning("ours")
        structlog.get_logger("agents.a").warning("theirs")
    assert [record["event"] for record in captured] == ["theirs"]
    assert [record["message"] for record in written()] == ["ours"]


def test_secrets_never_reach_the_handler(written: Written) -> None:
    get_logger("pallas.x").info(
        "Bearer %s", "hunter2", api_key="hunter2", headers={"Authorization": "hunter2"}
    )
    logging.getLogger("x").warning("OPENAI_API_KEY=hunter2", extra={"password": "hunter2"})
    try:
        fail("Authorization: Bearer hunter2")
    except ValueError:
        get_logger("pallas.x").exception("failed")
    assert "hunter2" not in json.dumps(written())


def test_levels_are_applied(written: Written) -> None:
    for name in ("pallas.x", "fast_agent", *THIRD_PARTY):
        logging.getLogger(name).debug("debug")
        logging.getLogger(name).info("info")
        logging.getLogger(name).warning("warning")
    get_logger("pallas.y").debug("debug")
    get_logger("fast_agent").debug("debug")
    said = [(record["logger"], record["message"]) for record in written()]
    assert said == [
        ("pallas.x", "debug"),
        ("pallas.x", "info"),
        ("pallas.x", "warning"),
        ("fast_agent", "info"),
        ("fast_agent", "warning"),
        *((name, "warning") for name in THIRD_PARTY),
        ("pallas.y", "debug"),
    ]
    assert len(THIRD_PARTY) == 11


def test_only_our_handler_stays_and_the_newest_call_counts() -> None:
    root = logging.getLogger()
    root.addHandler(logging.StreamHandler(io.StringIO()))
    own_logger().addHandler(logging.StreamHandler(io.StringIO()))
    handler = logging.StreamHandler(io.StringIO())
    configure_logging(handler, Levels("DEBUG", "INFO"), {"generation": 1})
    configure_logging(handler, Levels("ERROR", "WARNING"), {"generation": 2})
    assert root.handlers == [handler]
    assert own_logger().handlers == [handler]
    get_logger("pallas.x").warning("no")
    get_logger("pallas.x").error("yes")
    [line] = handler.stream.getvalue().splitlines()
    assert (json.loads(line)["message"], json.loads(line)["generation"]) == ("yes", 2)


def test_it_may_be_configured_again_after_a_fork(written: Written) -> None:
    logger = get_logger("pallas.x")
    logger.info("parent")
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        handler = logging.StreamHandler(os.fdopen(write, "w"))
        configure_logging(handler, Levels("INFO", "INFO"), {"agent": "child"})
        logger.info("child")
        handler.flush()
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        [line] = pipe.read().splitlines()
    assert (json.loads(line)["agent"], json.loads(line)["message"]) == ("child", "child")
    assert [record["message"] for record in written()] == ["parent"]


@pytest.mark.parametrize(
    ("environ", "config_level", "expected"),
    [
        ({}, None, ("INFO", "INFO")),
        ({}, "DEBUG", ("DEBUG", "INFO")),
        ({}, "warning", ("INFO", "WARNING")),
        ({}, "error", ("INFO", "ERROR")),
        ({"PALLAS_LOG_LEVEL": "error"}, "DEBUG", ("ERROR", "INFO")),
        ({"PALLAS_LOG_LEVEL": "error"}, None, ("ERROR", "ERROR")),
        ({"PALLAS_LOG_LEVEL": "debug"}, "error", ("DEBUG", "ERROR")),
        ({"PALLAS_LOG_LEVEL": "debug"}, None, ("DEBUG", "INFO")),
        ({"PALLAS_LOG_LEVEL": "", "PALLAS_ROOT_LOG_LEVEL": ""}, "ERROR", ("INFO", "ERROR")),
        ({"PALLAS_ROOT_LOG_LEVEL": "DEBUG"}, None, ("INFO", "DEBUG")),
        ({"PALLAS_ROOT_LOG_LEVEL": "CRITICAL"}, "DEBUG", ("DEBUG", "CRITICAL")),
        ({"PALLAS_LOG_LEVEL": "warn"}, None, ("WARNING", "WARNING")),
    ],
)
def test_the_rules_of_levels(
    environ: dict[str, str], config_level: str | None, expected: tuple[str, str]
) -> None:
    assert levels(environ, config_level) == expected


def test_levels_that_are_none_are_told_together() -> None:
    with pytest.raises(ConfigurationError) as caught:
        levels({"PALLAS_LOG_LEVEL": "loud", "PALLAS_ROOT_LOG_LEVEL": "10"}, None)
    names = "DEBUG, INFO, WARNING, ERROR, CRITICAL"
    assert str(caught.value).splitlines() == [
        f"environment: PALLAS_LOG_LEVEL: 'loud' is not a log level; use one of {names}",
        f"environment: PALLAS_ROOT_LOG_LEVEL: '10' is not a log level; use one of {names}",
    ]


def test_names_of_levels() -> None:
    assert [level_name(text) for text in (" info ", "Warn", "fatal", "notset", "")] == [
        "INFO",
        "WARNING",
        "CRITICAL",
        None,
        None,
    ]


def configure_structlog() -> None:
    structlog.configure(processors=[structlog.processors.KeyValueRenderer()], cache_logger_on_first_use=False)


def force_a_basic_configuration() -> None:
    logging.basicConfig(level=logging.CRITICAL, format="agent: %(message)s", force=True)


def configure_by_dictionary() -> None:
    theirs = {"version": 1, "root": {"level": "CRITICAL"}, "loggers": {"pallas": {"level": "CRITICAL"}}}
    logging.config.dictConfig(theirs)


def disable_everything() -> None:
    logging.disable(logging.CRITICAL)


def replace_records_and_loggers() -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise RuntimeError

    logging.setLogRecordFactory(fail)
    logging.setLoggerClass(type("Silent", (logging.Logger,), {"handle": fail}))


def rename_levels() -> None:
    logging.addLevelName(logging.WARNING, "\x1b[33mwarn\x1b[0m")


def silence_loggers_by_name() -> None:
    for name in ("", "pallas", "pallas.x"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.disabled = True
        logger.propagate = False
        logger.addFilter(lambda _: False)


@pytest.fixture
def restored_everything() -> Iterator[None]:
    """Put back what the functions above change."""
    factory, kind, known = logging.getLogRecordFactory(), logging.getLoggerClass(), structlog.get_config()
    yield
    logging.setLogRecordFactory(factory)
    logging.setLoggerClass(kind)
    logging.disable(logging.NOTSET)
    logging.addLevelName(logging.WARNING, "WARNING")
    structlog.configure(**known)
    for logger in (logging.getLogger(name) for name in ("", *logging.root.manager.loggerDict)):
        logger.disabled = False
        logger.propagate = True
        logger.filters.clear()
    for name in ("pallas", "pallas.x"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("restored_everything")
@pytest.mark.parametrize(
    "theirs",
    [
        configure_structlog,
        force_a_basic_configuration,
        configure_by_dictionary,
        disable_everything,
        replace_records_and_loggers,
        rename_levels,
        silence_loggers_by_name,
    ],
)
def test_what_others_make_of_logging_does_not_reach_our_loggers(theirs: Callable[[], None]) -> None:
    written = configured()
    used, unused = get_logger("pallas.x"), get_logger("pallas.unused")
    used.info("before")
    theirs()
    for logger in (used, unused, get_logger("pallas.later")):
        logger.warning("%s of %d", "one", 2, port=8201)
    try:
        fail("first")
    except ValueError:
        used.exception("failed")
    before, *after, failed = written()
    assert before["message"] == "before"
    for record, name in zip(after, ("pallas.x", "pallas.unused", "pallas.later"), strict=True):
        del record["time"]
        assert record == {
            "level": "WARNING",
            "logger": name,
            "message": "one of 2",
            "agent": "jarvis",
            "pid": 7,
            "port": 8201,
        }
    assert failed["level"] == "ERROR"
    assert failed["exception"].endswith("ValueError: first")


@pytest.mark.usefixtures("restored_everything", "written")
def test_a_configuration_of_structlog_stays_its_owners() -> None:
    configure_structlog()
    get_logger("pallas.later").info("of ours")
    assert isinstance(structlog.get_config()["processors"][0], structlog.processors.KeyValueRenderer)


def test_our_loggers_say_nothing_of_their_own_until_they_have_a_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    get_logger("pallas.x").warning("to the root logger", port=8201)
    get_logger("pallas.x").info("below its level")
    with caplog.at_level(logging.INFO):
        get_logger("pallas.x").info("at its level")
    assert caplog.messages == ["to the root logger", "at its level"]
