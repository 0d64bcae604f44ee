"""What is to be pasted into MCP clients: well-formed for whatever an agent is called, and no more than is needed."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import yaml

from pallas_registry.catalogue.connections import CLIENTS, Endpoint, connection, reach_note

HOME = Endpoint("research", "http://localhost:24201/mcp")
AWAY = Endpoint("jarvis", "http://agents.example.com:24202/mcp")
HOSTILE = Endpoint(
    'it\'s "a" `b` $(c) \\ {d} <e> # \n é \u2028 \U0001f600: *f', "http://x/'\"$(touch y)\\{}\n#%20\U0001f600"
)
ALL = (HOME, AWAY, HOSTILE)

SERVERS_OF_FILES = {
    "claude-desktop": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
}


def texts(client: str, *endpoints: Endpoint) -> list[str]:
    return [snippet.text for snippet in connection(client, endpoints).snippets]


@pytest.mark.parametrize("client", SERVERS_OF_FILES)
def test_a_file_of_a_client_is_json_with_every_agent_by_its_name(client: str) -> None:
    document = json.loads(texts(client, *ALL)[0])
    assert list(document) == [SERVERS_OF_FILES[client]]
    servers = document[SERVERS_OF_FILES[client]]
    assert list(servers) == [endpoint.name for endpoint in ALL]
    for name, url in ALL:
        assert url in (servers[name].get("url"), *servers[name].get("args", ()))


def test_the_project_file_of_claude_code_says_that_it_is_http() -> None:
    assert json.loads(texts("claude-code", HOME)[1]) == {
        "mcpServers": {"research": {"type": "http", "url": HOME.url}}
    }


def test_vscode_says_that_it_is_http_in_the_file_and_in_the_command() -> None:
    file, command = texts("vscode", HOME)
    assert json.loads(file)["servers"] == {"research": {"type": "http", "url": HOME.url}}
    code, option, settings = shlex.split(command)
    assert (code, option) == ("code", "--add-mcp")
    assert json.loads(settings) == {"name": "research", "type": "http", "url": HOME.url}


@pytest.mark.parametrize("client", ["claude-code", "inspector"])
def test_a_shell_reads_each_word_as_it_was_meant(client: str) -> None:
    for text in texts(client, HOSTILE)[: 1 if client == "claude-code" else 2]:
        words = shlex.split(text)
        assert HOSTILE.url in words
        assert (HOSTILE.name in words) == (client == "claude-code")
    assert [shlex.split(line)[-1] for line in texts("claude-code", HOME, AWAY)[0].splitlines()] == [
        HOME.url,
        AWAY.url,
    ]


def test_mcp_remote_is_told_that_another_machine_is_reached_without_encryption() -> None:
    def options(url: str) -> list[str]:
        document = json.loads(texts("claude-desktop", Endpoint("a", url))[0])
        arguments: list[str] = document["mcpServers"]["a"]["args"]
        return arguments[arguments.index(url) + 1 :]

    assert options(HOME.url) == options("http://127.0.0.1:1/mcp") == options("http://[::1]:1/mcp") == []
    assert options("https://agents.example.com/mcp") == []
    assert options(AWAY.url) == options("http://192.0.2.7:1/mcp") == ["--allow-http"]


def test_fast_agents_file_is_yaml_and_the_servers_are_named_in_the_agent() -> None:
    file, agent = texts("fast-agent", *ALL)
    assert yaml.safe_load(file) == {
        "mcp": {"servers": {name: {"transport": "http", "url": url} for name, url in ALL}}
    }
    names = re.fullmatch(r"@fast\.agent\(servers=(\[.*\])\)", agent)
    assert names
    assert json.loads(names[1]) == [name for name, _ in ALL]


def test_only_urls_of_this_machine_are_said_to_work_here_only() -> None:
    without = reach_note([AWAY, HOME]) or ""
    assert "`gateway: {bind: " in without
    assert "with a token" in without
    of_gateway = reach_note([Endpoint("a", "http://[::1]:24199/mcp/agents/a")]) or ""
    assert "give the gateway a `bind:` and a `public_url:`" in of_gateway
    assert "`host:`" not in without + of_gateway
    assert reach_note([AWAY]) is None


@pytest.mark.parametrize("client", CLIENTS)
def test_every_snippet_says_what_to_do_with_it_and_can_be_pasted(client: str) -> None:
    found = connection(client, [HOME])
    for snippet in found.snippets:
        assert re.fullmatch(r"[A-Z].*:", snippet.lead)
        assert snippet.text == snippet.text.strip("\n")
        assert snippet.text.isascii()
        assert "research" in snippet.text or HOME.url in snippet.text
    assert all(note.endswith((".", "'")) for note in found.notes)


GATEWAY = Endpoint("jarvis", "https://agents.example.com/mcp/agents/jarvis")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_goes_to_the_gateway_has_a_token_and_nothing_else_has(client: str) -> None:
    for endpoint in (HOME, AWAY):
        made = connection(client, [endpoint])
        said = "".join((*(snippet.text for snippet in made.snippets), *made.notes))
        assert not re.search(r"(?i)token|authorization|\"chat\"", said)
    made = connection(client, [GATEWAY])
    for snippet in made.snippets:
        assert GATEWAY.url in snippet.text or "servers=" in snippet.text
        assert "send_message" not in snippet.text
    assert "Authorization" in made.snippets[0 if client != "inspector" else 1].text
    assert any("YOUR_TOKEN" in note or "pallasctl token create" in note for note in made.notes) or (
        client == "vscode"
    )


@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "vscode"])
def test_of_several_those_of_the_gateway_have_a_token(client: str) -> None:
    document = json.loads(texts(client, HOME, GATEWAY)[0])
    servers = document[SERVERS_OF_FILES[client]]
    assert "Authorization" in json.dumps(servers["jarvis"])
    assert "Authorization" not in json.dumps(servers["research"])


def test_the_shell_puts_the_token_in() -> None:
    for client, at in (("claude-code", 0), ("inspector", 1)):
        words = shlex.split(texts(client, GATEWAY)[at])
        assert words[-2:] == ["--header", "Authorization: Bearer $PALLAS_CLIENT_TOKEN"]


@pytest.mark.parametrize("client", ["python", "typescript"])
def test_programs_show_the_token_to_the_gateway_alone(client: str) -> None:
    found = texts(client, HOME, GATEWAY)
    assert ["PALLAS_CLIENT_TOKEN" in text for text in found] == [False, False, True, True]
    assert [GATEWAY.url in text for text in found] == [False, False, True, True]
    assert [HOME.url in text for text in found] == [True, True, False, False]
    if client == "python":
        for text in found:
            compile(text, "ask.py", "exec")
