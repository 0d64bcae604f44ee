"""Names, titles and descriptions for agents.yaml, made of what the code says.

Pure. What it gives passes the rules of agents.yaml.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from typing import TYPE_CHECKING

from pallas_common.secrets.patterns import redact
from pallas_registry.reading import rules

if TYPE_CHECKING:
    from pallas_registry.projects.code.facts import Source

LONGEST = 100
"""Characters of a title or description (rules.published_text)."""

_GENERIC = {"agent", "agents", "app", "default", "fast", "main", "server", "__init__", "__main__", "src", ""}
"""Names that say nothing about an agent."""
_PERSONA = re.compile(r"(?i)you(?:'re| are| act as)\s+(?=\S)")


def deployment_name(text: str) -> str:
    """A name for the deployment that can also start server names."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.")[:60].strip("-.")
    return name or "my-agents"


def entry_name(text: str) -> str:
    """A name for an entry that is like the text, or empty."""
    if rules.agent_name(text) is None:
        return text
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-_")
    name = re.sub(r"^[^A-Za-z]+", "", name)[:64].rstrip("-_")
    return f"{name}-agent" if name in rules.RESERVED_AGENT_NAMES else name


def wanted_name(source: Source) -> str:
    """The name that an entry for the source should have: the agent's, unless that says nothing."""
    named = source.served.name if source.served is not None else None
    if named and not source.free_name:
        return entry_name(named) or "agent"
    if named and named.lower() not in _GENERIC and entry_name(named):
        return entry_name(named)
    return name_of_file(source)


def name_of_file(source: Source) -> str:
    """A name after the file, else after its folder, else after the FastAgent."""
    parts = posixpath.splitext(source.file)[0].split("/")
    for part in reversed(parts):
        name = entry_name(part.replace("_", "-"))
        if name and name.lower() not in _GENERIC:
            return name
    if source.name and (name := entry_name(source.name.lower())):
        return name
    return "agent"


def name_of_path(source: Source) -> str:
    """A name after the file and its folders, which tells files of one name apart."""
    parts = posixpath.splitext(source.file)[0].split("/")[-3:]
    return entry_name("-".join(part.replace("_", "-") for part in parts)) or "agent"


def title(name: str) -> str:
    """`url_fetcher` as people write it: `Url fetcher`; capitals stay."""
    words = re.sub(r"[-_]+", " ", name).strip()
    return words[:1].upper() + words[1:]


def description(source: Source) -> str | None:
    """What the agent is for, in at most 100 characters: the first sentence that its instruction or docstring has."""
    text = (source.served.text if source.served is not None else None) or source.docstring or ""
    text = re.sub(r"\{\{.*?\}\}|[#*`>]+", " ", text[:4000], flags=re.DOTALL)
    line = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(line.split())
    line = _PERSONA.sub("", line, count=1) if _PERSONA.match(line) else line
    line = re.split(r"(?<=[a-z)\"'][.!?])\s", line, maxsplit=1)[0].rstrip(" .:;,-")
    if not line or redact(line) != line:
        return None
    if len(line) > LONGEST:
        line = line[: LONGEST - 1].rsplit(" ", 1)[0].rstrip(" .:;,-") + "…"
    line = line[:1].upper() + line[1:]
    return line if rules.published_text(line) is None else None
