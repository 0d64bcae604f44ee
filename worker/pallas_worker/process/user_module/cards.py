"""Agent cards, loaded into a FastAgent of our own, and what fast-agent lets pass in them found out.

fast-agent checks a card's keys and their types. It takes without a word: an agent that is not there, a filter for a
server that the agent does not have, a key of `request_params` that does not exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fast_agent import FastAgent
from fast_agent.core.agent_card_paths import is_agent_card_path
from fast_agent.core.exceptions import FastAgentError
from fast_agent.core.validation import get_agent_dependencies
from fast_agent.types import RequestParams

from pallas_common.problems import did_you_mean, quoted, shortened
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.user_module.card_text import CardError, CardText, read_card

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pallas_common.protocol.agent.source import AgentSource
    from pallas_worker.process.user_module.errors import UserCode

MOST_CARDS = 1000
"""Of a folder."""

MAX_MESSAGE = 500
"""Characters of what fast-agent says of a card."""

FILTERS = ("tools", "resources", "prompts")
"""Keys that narrow what an agent sees of its servers."""

_KNOWN_PARAMETERS = frozenset(RequestParams.model_fields) | {
    field.alias for field in RequestParams.model_fields.values() if field.alias
}


def load_cards(source: AgentSource, code: UserCode) -> tuple[FastAgent, tuple[Path, ...], tuple[str, ...]]:
    """The agents of the card or of the folder of cards, the files that were read, and warnings.

    Raises:
        AgentError: a card cannot be read, or is wrong; says which, and where in it.
    """
    path = Path(code.directory, source.path).resolve()
    cards = _read(path, code)
    fast = FastAgent(source.path, parse_cli_args=False)
    try:
        fast.load_agents(path)
    except FastAgentError as error:
        raise _refused(_said(error, cards, code)) from error
    warnings: list[str] = []
    for name, data in fast.agents.items():
        file = data.get("source_path")
        card = cards.get(Path(file)) if file is not None else None
        if card is not None:
            place = _Place(code.short(str(file)), card)
            _refuse_missing_agents(data, fast.agents, place, path)
            _refuse_void_filters(name, data["config"], place)
            warnings += _unknown_parameters(place)
    code_files = (named for file, card in cards.items() for named in _code_of(file, card))
    return fast, (*cards, *code_files), tuple(warnings)


def _code_of(file: Path, card: CardText) -> Iterator[Path]:
    """The Python files that the card names as in `tools.py:search`, relative to itself."""
    for text in card.texts():
        path, colon, name = text.rpartition(":")
        if colon and path.endswith(".py") and name.isidentifier() and (found := file.parent / path).is_file():
            yield found.resolve()


class _Place:
    """A card, as messages name it."""

    def __init__(self, file: str, card: CardText) -> None:
        self.file = file
        self.card = card

    def at(self, line: int | None) -> str:
        return self.file if line is None else f"{self.file}:{line}"


def _read(path: Path, code: UserCode) -> dict[Path, CardText]:
    try:
        folder = path.is_dir()
        files = sorted(path.iterdir())[: MOST_CARDS + 1] if folder else [path]
    except OSError as error:
        raise _refused(f"{code.short(str(path))}: cannot be read: {error.strerror or error}") from None
    if folder:
        files = [file for file in files if not file.is_dir() and is_agent_card_path(file)]
    if len(files) > MOST_CARDS:
        raise _refused(
            f"{code.short(str(path))}: more than {MOST_CARDS} files: name a folder that holds cards alone"
        )
    cards: dict[Path, CardText] = {}
    owners: dict[str, Path] = {}
    for file in files:
        try:
            if (card := read_card(file)) is not None:
                cards[file] = card
                _refuse_namesake(owners, card, file, code)
        except CardError as error:
            place = code.short(str(file)) + (f":{error.line}" if error.line is not None else "")
            raise _refused(f"{place}: {error.message}") from None
    if not cards:
        what = "holds no agent card" if folder else "is no agent card"
        raise _refused(
            f"{code.short(str(path))}: {what}: a card begins with a line `---`, keys, and another `---`"
        )
    return cards


def _refuse_namesake(owners: dict[str, Path], card: CardText, file: Path, code: UserCode) -> None:
    name = card.text("name") or file.stem.replace(" ", "_")
    owner = owners.setdefault(name, file)
    if owner != file:
        place = _Place(code.short(str(file)), card).at(card.line("name"))
        raise _refused(
            f"{place}: the agent is called {quoted(name)}, and so is the one of {code.short(str(owner))}: "
            "rename one of the two"
        )


def _said(error: FastAgentError, cards: Mapping[Path, CardText], code: UserCode) -> str:
    """What fast-agent says of a card, with the file and the line, where they can be told, before it."""
    message, details = str(error.message), str(error.details or "")
    file = next((file for file in cards if str(file) in f"{message} {details}"), None)
    said = ": ".join(" ".join(part.split()) for part in (message, details) if part.strip())
    if file is None:
        return shortened(said.replace(f"{code.directory}/", ""), MAX_MESSAGE)
    said = said.replace(f" in {file}", "").replace(str(file), "it").replace(f"{code.directory}/", "")
    card = cards[file]
    place = _Place(code.short(str(file)), card)
    unknown = details.removeprefix("Unknown fields: ").split(", ") if "Unknown fields: " in details else []
    said = said.partition(" For further information visit ")[0]
    return f"{place.at(_line_of(card, said, unknown))}: {shortened(said, MAX_MESSAGE)}"


def _line_of(card: CardText, said: str, unknown: Sequence[str]) -> int | None:
    """The line of the key that a message is about, as far as it names one."""
    for key in card.keys():  # noqa: SIM118 - no mapping
        if key in unknown or f"'{key}'" in said or ("_" in key and key in said):
            inner = next((each for each in card.keys(key) if each in said), None)
            return card.line(key) if inner is None else card.line(key, inner)
    return card.line("type")


def _refuse_missing_agents(data: Any, agents: Mapping[str, Any], place: _Place, path: Path) -> None:
    for child in sorted(get_agent_dependencies(data)):
        if child in agents:
            continue
        found = place.card.place_of(child)
        key, line = found if found is not None else ("agents", None)
        if near := did_you_mean(child, list(agents)):
            remedy = f"did you mean {near!r}?"
        elif path.is_dir():
            remedy = "write a card for it, or remove it"
        else:
            folder = shortened(f"{Path(place.file).parent}/")
            remedy = f"if another card in the folder defines it, write `card: {folder}`"
        raise _refused(f"{place.at(line)}: {key}: there is no agent {quoted(child)}; {remedy}")


def _refuse_void_filters(name: str, config: Any, place: _Place) -> None:
    """Refuse a filter that would filter nothing, as the agent has no such server: everything would be visible."""
    servers = set(config.servers or ())
    for declared in config.mcp_connect or ():
        if declared.name is None:
            return  # known only once it is connected
        servers.add(declared.name)
    for key in FILTERS:
        for server in place.card.keys(key):
            if server not in servers:
                near = did_you_mean(server, servers)
                remedy = f"did you mean {near!r}?" if near else "add it to `servers:`, or remove the filter"
                raise _refused(
                    f"{place.at(place.card.line(key, server))}: {key}: agent {quoted(name)} has no server "
                    f"{quoted(server)}, so that nothing would be filtered; {remedy}"
                )


def _unknown_parameters(place: _Place) -> Iterator[str]:
    for key in _unknown(place.card.keys("request_params"), _KNOWN_PARAMETERS):
        near = did_you_mean(key, _KNOWN_PARAMETERS)
        remedy = f"did you mean `{near}`?" if near else "remove it"
        line = place.card.line("request_params", key)
        yield f"{place.at(line)}: request_params: fast-agent knows no {quoted(key)} and passes over it; {remedy}"


def _unknown(keys: Iterable[str], known: frozenset[str]) -> Iterator[str]:
    return (key for key in keys if key not in known)


def _refused(message: str) -> AgentError:
    return AgentError(message, permanent=True)
