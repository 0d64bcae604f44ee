"""The commands of a chat for threads: /threads and /resume. Knows the session, and how a list of threads is shown."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallasctl.failures import Failure
from pallasctl.live import cut
from pallasctl.text import format_duration, one_line
from pallasctl.verbs.talk.chat.session import FAILURES, explained
from pallasctl.verbs.talk.chat.transcript import last_messages
from pallasctl.verbs.talk.terminal.output import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pallasctl.verbs.talk.backends.backend import ThreadInfo, Threads
    from pallasctl.verbs.talk.chat.session import Session

LISTED = 20
_SHORTEST_PREFIX = 4


class ThreadCommands:
    """Carries them out; numbers are those of the list that was shown last."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._listed: Sequence[ThreadInfo] = ()

    def show_list(self, words: str) -> None:
        """Show the user's threads with the agent, the newest first."""
        threads = self._threads()
        self._listed = threads.find(words, LISTED)
        if not self._listed:
            note(f"no conversation has {words}" if words else "there are no conversations yet")
            return
        columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        for line in thread_lines(self._listed, threads.current, datetime.now(UTC), columns):
            note(line, "plain")
        if len(self._listed) == LISTED:
            note(f"the newest {LISTED}; `/threads WORDS` finds others")

    def resume(self, said: str) -> None:
        """Go on with a thread, and show its end."""
        threads = self._threads()
        if not said:
            raise Failure("/resume needs a number or an id; `/threads` lists your conversations")
        threads.resume(self._meant(said))
        self.show_end()

    def show_end(self) -> None:
        """Show the last messages of the thread, and the turn that is under way."""
        threads = self._threads()
        try:
            lines, is_pending = last_messages(threads.messages(), self._session.backend.agent)
        except FAILURES as error:
            note(f"what was said is not shown: {explained(error, self._session.backend.agent)[0]}")
            return
        for line in lines or ["(the conversation has no messages yet)"]:
            note(line)
        if is_pending:
            self._session.shown(threads.follow)

    def complete(self, word: str) -> list[str]:
        """The ids of the list that was shown last."""
        return [thread.id for thread in self._listed if thread.id.startswith(word)]

    def _threads(self) -> Threads:
        threads = self._session.backend.threads
        if threads is None:
            raise Failure(
                "conversations are kept by a gateway, and there is none here: this one ends with the chat; "
                "/save FILE keeps it"
            )
        return threads

    def _meant(self, said: str) -> str:
        """The id that a number, an id or the beginning of one stands for."""
        if said.isascii() and said.isdecimal() and len(said) < _SHORTEST_PREFIX:
            self._listed = self._listed or self._threads().find("", LISTED)
            if not 1 <= int(said) <= len(self._listed):
                raise Failure(f"there is no number {said} in the list, which has {len(self._listed)}")
            return self._listed[int(said) - 1].id
        begun = [thread.id for thread in self._listed if thread.id.startswith(said)]
        return begun[0] if len(begun) == 1 and len(said) >= _SHORTEST_PREFIX else said


def thread_lines(
    threads: Sequence[ThreadInfo], current: str | None, now: datetime, columns: int | None
) -> list[str]:
    """A line each: number, age, title, and the id where there is room; the current one is marked.

    Args:
        columns: of the terminal; None: as wide as they are.
    """
    ages = [_age(thread, now) for thread in threads]
    width = max(map(len, ages), default=0)
    found = []
    for number, (thread, age) in enumerate(zip(threads, ages, strict=True), 1):
        head = f"{'*' if thread.id == current else ' '}{number:>3}  {age:<{width}}  "
        title = one_line(thread.title) or "(without a title)"
        if columns is None:
            found.append(f"{head}{title}  {thread.id}")
            continue
        room = columns - len(head) - len(thread.id) - 3
        if room >= _SHORTEST_PREFIX * 5:
            short = cut(title, room)
            found.append(f"{head}{short}{' ' * (room - len(short))}  {thread.id}")
        else:
            found.append(cut(head + title, columns - 1))
    return found


def _age(thread: ThreadInfo, now: datetime) -> str:
    if thread.last_turn is None:
        return "-"
    try:
        then = datetime.fromisoformat(thread.last_turn)
    except ValueError:
        return "?"
    return f"{format_duration((now - then).total_seconds())} ago" if then.tzinfo is not None else "?"
