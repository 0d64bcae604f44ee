"""Lines that repeat are said once and counted; neither many texts nor many lines are a flood."""

from __future__ import annotations

from pallas_supervisor.logs.console.lines import Say
from pallas_supervisor.logs.console.repeats import BURST, LONGEST_WINDOW, MOST, MOST_COUNTS, WINDOW, Repeats


def warning(text: str, about: str = "research") -> Say:
    return Say(text, "warning", "warn", about, problem=True)


def texts(said: list[Say]) -> list[str]:
    return [say.text for say in said]


def test_a_line_that_repeats_is_said_once_and_counted() -> None:
    repeats = Repeats()
    assert texts(repeats.take(warning("attempt 1 failed"), 0.0)) == ["attempt 1 failed"]
    for number in range(2, 16):
        assert repeats.take(warning(f"attempt {number} failed"), number / 10) == []
    assert repeats.due == WINDOW
    assert texts(repeats.tick(WINDOW)) == ["… (repeated 14 times in 30 s) attempt 15 failed"]
    repeats.take(warning("attempt 16 failed"), WINDOW + 1)
    assert repeats.due == WINDOW + 2 * WINDOW
    assert texts(repeats.tick(3 * WINDOW)) == ["… (repeated once more in 60 s) attempt 16 failed"]


def test_one_that_has_not_come_for_a_window_is_said_anew() -> None:
    repeats = Repeats()
    repeats.take(warning("late"), 0.0)
    assert repeats.tick(WINDOW) == []
    assert texts(repeats.take(warning("late"), WINDOW + 1)) == ["late"]


def test_another_agent_or_another_level_is_another_line() -> None:
    repeats = Repeats()
    lines = [warning("late"), warning("late", "jarvis"), Say("late", "error", "bad", "research")]
    assert [len(repeats.take(line, 0.0)) for line in lines] == [1, 1, 1]


def test_windows_grow_to_a_bound() -> None:
    repeats = Repeats()
    repeats.take(warning("late"), 0.0)
    now = 0.0
    for _ in range(20):
        repeats.take(warning("late"), now)
        due = repeats.due
        assert due is not None
        assert due - now <= LONGEST_WINDOW
        now = due
        assert len(repeats.tick(now)) == 1


def test_many_different_lines_of_one_agent_are_counted_together() -> None:
    repeats = Repeats()
    words = [f"{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(100)]
    said = [line for word in words for line in repeats.take(warning(word), 1.0)]
    assert texts(said) == words[:BURST]
    assert len(repeats.take(warning("elsewhere", "jarvis"), 1.0)) == 1
    assert texts(repeats.tick(1.0 + WINDOW)) == [
        f"… {100 - BURST} more like these in 30 s, the last: {words[-1]}"
    ]


def test_many_counts_of_one_agent_are_one_line() -> None:
    repeats = Repeats()
    words = "abcdefghi"
    assert len(words) > MOST_COUNTS
    for _ in range(3):
        for word in words:
            repeats.take(warning(word), 0.0)
    assert texts(repeats.tick(WINDOW)) == ["… 18 more like these in 30 s, the last: i"]


def test_no_more_texts_than_so_many_are_remembered() -> None:
    repeats = Repeats()
    for number in range(10 * MOST):
        about = f"agent-{number}"
        repeats.take(warning("late", about), 0.0)
        repeats.take(warning("late", about), 0.0)
    assert len(repeats._texts) <= MOST + 1
    assert len(repeats._bursts) <= MOST + 1


def test_what_was_counted_is_said_at_the_end() -> None:
    repeats = Repeats()
    repeats.take(warning("late"), 0.0)
    repeats.take(warning("late"), 1.0)
    assert texts(repeats.finish(5.0)) == ["… (repeated once more in 5 s) late"]
    assert repeats.finish(6.0) == []
