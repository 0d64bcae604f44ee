"""The agents and the models as tables. Pure.

The roles are written out, because a browser forgets them where a narrow screen shows the rows as cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.http.html import Html, join, tag
from pallas_common.times import rfc3339
from pallas_supervisor.http.page.data.history import INTERVAL
from pallas_supervisor.http.page.view import text
from pallas_supervisor.http.page.view.charts import area, bars, strip
from pallas_supervisor.http.page.view.connect import MOST_AGENTS, connect_id
from pallas_supervisor.http.page.view.glyphs import word
from pallas_supervisor.lifecycle.states import State

if TYPE_CHECKING:
    from datetime import datetime

    from pallas_common.http.html import Child
    from pallas_supervisor.http.page.data.facts import AgentFacts, DeploymentFacts
    from pallas_supervisor.http.page.data.samples import Samples

PER_MINUTE = 4
"""Intervals of the history in a minute."""
CALLS_FLOOR = 6.0
"""Calls per minute that fill a chart of an agent that has fewer."""
MAX_MODELS = 100
"""Rows of models; agents name theirs themselves, and there may be any number."""
MEMORY_FLOOR = 64.0 * 2**20

_AGENT_COLUMNS = (
    ("Agent", ""),
    ("State", ""),
    ("Health", ""),
    ("Last 15 minutes", ""),
    ("Calls/min", "number"),
    ("Errors/min", "number"),
    ("Restarts", "number"),
    ("Memory", "number"),
    ("Tokens", "number"),
)
MAX_IDLE_ROWS = 20
"""Idle agents that have rows like the others; where there are more, all of them are folded into a list."""
MAX_IDLE_LISTED = 200
"""Of these, how many are listed."""

_JUDGED = (State.READY, State.IDLE, State.BACKOFF, State.FAILED)
"""States in which an agent has a health; in the others it is between two, or should not run."""
_KINDS = (
    ("input", "Input"),
    ("output", "Output"),
    ("cache_read", "Cache read"),
    ("cache_write", "Cache write"),
    ("cache_hit", "Cache hit"),
    ("reasoning", "Reasoning"),
)


def are_folded(facts: DeploymentFacts) -> bool:
    """Whether there are more idle agents than have rows."""
    return len(facts.idle) > MAX_IDLE_ROWS


def agents_table(facts: DeploymentFacts) -> Html | None:
    """One row an agent, in the order of `agents.yaml`; None where all of them are folded."""
    folded = are_folded(facts)
    rows = [
        _agent(agent, connectable=place < MOST_AGENTS)
        for place, agent in enumerate(facts.agents)
        if not folded or agent.state is not State.IDLE
    ]
    return (
        _table("agents", "Agents: state, health, use", _AGENT_COLUMNS, rows) if rows or not folded else None
    )


def idle_list(facts: DeploymentFacts) -> Html | None:
    """The idle agents where there are many: how many, and on a click which."""
    if not are_folded(facts):
        return None
    idle = facts.idle
    more = text.more(len(idle), MAX_IDLE_LISTED)
    lines = (
        tag(
            "li",
            tag("code", agent.name),
            _note(", ".join(filter(None, (agent.model, agent.project and f"project {agent.project}")))),
            id=f"agent-{agent.name}",
        )
        for agent in idle[:MAX_IDLE_LISTED]
    )
    return tag(
        "details",
        tag("summary", word("idle"), f" {text.several(len(idle), 'agent')} more, which the next call starts"),
        tag("ul", lines),
        None if more is None else tag("p", f"{more}: pallasctl status --state idle", class_="note"),
        class_="resting",
        data_key="idle",
    )


def models_table(samples: Samples) -> Html | None:
    """Turns and tokens by model; None as long as no model was asked."""
    if not samples.models:
        return None
    columns = (("Model", ""), ("Turns", "number"), *((title, "number") for _, title in _KINDS))
    rows = []
    for name in sorted(samples.models)[:MAX_MODELS]:
        model = samples.models[name]
        counts = [model.turns, *(model.tokens[kind] for kind, _ in _KINDS)]
        cells = [
            _figure(title, text.whole(count)) for (title, _), count in zip(columns[1:], counts, strict=True)
        ]
        rows.append(_row(_head(tag("span", name, class_="title")), *cells, data_key=name))
    return _table("models", "Turns and tokens by model", columns, rows)


def since(moment: datetime) -> Html:
    """A time of day in UTC, which the script turns into an age."""
    return tag("time", moment.strftime("%H:%M:%S UTC"), datetime=rfc3339(moment))


def _agent(agent: AgentFacts, *, connectable: bool) -> Html:
    calls = tuple([point.counted.calls * PER_MINUTE for point in agent.trend.points])
    errors = tuple([point.counted.errors * PER_MINUTE for point in agent.trend.points])
    peak = text.rate(max(calls, default=0.0))
    failed = text.rate(max(errors, default=0.0))
    states = dict.fromkeys(stretch.state for stretch in agent.stretches)
    rate = agent.trend.rate
    busy = [
        f"{count} {what}"
        for count, what in ((agent.totals.running, "running"), (agent.totals.waiting, "waiting"))
        if count
    ]
    totals = agent.totals
    memory = tuple([point.memory for point in agent.trend.points])
    return _row(
        _head(
            tag("span", agent.title, class_="title"),
            tag("span", tag("code", agent.name), f" serves {agent.serves}", class_="note"),
            tag("span", tag("code", agent.url), _connect(agent) if connectable else None, class_="note")
            if agent.url
            else None,
            tag("span", agent.model, class_="note") if agent.model else None,
            tag("span", f"project {agent.project}", class_="note") if agent.project else None,
            tag("span", f"needs {', '.join(agent.needs)}", class_="note") if agent.needs else None,
        ),
        _cell(
            "State", word(str(agent.state)), tag("span", since(agent.since), class_="note"), class_="state"
        ),
        _cell(
            "Health",
            word(agent.health) if agent.state in _JUDGED else None,
            tag("span", agent.why or "–", class_="note why") if agent.health != "ok" else None,
            class_="health",
        ),
        _cell(
            "Last 15 minutes",
            bars(calls, errors, floor=CALLS_FLOOR, label=f"Calls: at most {peak} a minute, errors {failed}"),
            strip(agent.stretches, label=f"States: {', '.join(states)}"),
            None
            if agent.trend.points or agent.state in (State.IDLE, State.STOPPED)
            else _note(f"begins in {INTERVAL:.0f} s at most"),
            class_="charts",
        ),
        _figure("Calls/min", text.rate(rate.calls), _note(", ".join(busy))),
        _figure("Errors/min", text.rate(rate.errors), class_="bad"),
        _figure("Restarts", text.whole(agent.restarts)),
        _figure(
            "Memory",
            text.memory(agent.memory),
            area(memory, floor=MEMORY_FLOOR, label="Resident memory over 15 minutes")
            if any(memory)
            else None,
            class_="memory",
        ),
        _figure(
            "Tokens",
            *(
                [
                    tag("span", f"{text.compact(totals.tokens_in)} in", class_="line"),
                    tag("span", f"{text.compact(totals.tokens_out)} out", class_="line"),
                ]
                if totals.tokens
                else ["–" if agent.state is State.IDLE else "0"]
            ),
            class_="tokens",
        ),
        id=f"agent-{agent.name}",
        data_state=str(agent.state),
        tabindex=-1,
    )


def _connect(agent: AgentFacts) -> Html:
    label = f"Connect a client to {agent.name}"
    return join(" ", tag("a", "Connect", href=f"#{connect_id(agent)}", aria_label=label))


def _figure(label: str, *children: Child, class_: str = "") -> Html:
    """A cell of a number; nothing is a quiet figure."""
    classes = ["number", class_, "zero" if children[0] == "0" else ""]
    return _cell(label, *children, class_=" ".join(filter(None, classes)))


def _note(said: str) -> Html | None:
    return tag("span", said, class_="note") if said else None


def _table(class_: str, caption: str, columns: tuple[tuple[str, str], ...], rows: Child) -> Html:
    heads = [
        tag("th", title, scope="col", role="columnheader", class_=kind or None) for title, kind in columns
    ]
    return tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", *heads, role="row"), role="rowgroup"),
        tag("tbody", rows, role="rowgroup"),
        class_=class_,
        role="table",
    )


def _row(*cells: Child, **attributes: str | int) -> Html:
    return tag("tr", *cells, role="row", **attributes)


def _head(*children: Child) -> Html:
    return tag("th", *children, scope="row", role="rowheader")


def _cell(label: str, *children: Child, class_: str) -> Html:
    """`label` stands before the value where a row is a card."""
    return tag(
        "td",
        tag("span", label, class_="label"),
        join(*children),
        role="cell",
        class_=class_,
    )
