"""The servers of a definition as fast-agent's settings: these alone, with secrets where they are referred to."""

from __future__ import annotations

import pytest
from fast_agent.config import MCPServerSettings, MCPSettings

from pallas_common.protocol.agent.definition import ServerDefinition
from pallas_worker.downstreams.settings import forwarding_servers
from pallas_worker.interface.errors import AgentError
from pallas_worker.process.declared.servers import mcp_settings

SECRETS = {"web/TOKEN": "t-${secret:web/TOKEN}-0123456789"}


def server(name: str = "web", **settings: object) -> ServerDefinition:
    return ServerDefinition(name=name, settings=settings)


def test_a_server_is_as_it_is_declared_and_secrets_are_put_in_once() -> None:
    http = server(
        transport="http",
        url="http://a/mcp",
        headers={"X-Key": "k ${secret:web/TOKEN} ${HOME}"},
        read_timeout_seconds=7,
    )
    stdio = server("here", command="run", args=["--key=${secret:web/TOKEN}"], env={"KEY": "x"}, cwd="/tmp")
    configured = MCPSettings(servers={"other": MCPServerSettings(command="other")})
    settings = mcp_settings([http, stdio], SECRETS, configured)
    assert list(settings.servers) == ["web", "here"]
    web, here = settings.servers.values()
    assert web.headers == {"X-Key": f"k {SECRETS['web/TOKEN']} ${{HOME}}"}
    assert (web.transport, web.url, web.read_timeout_seconds) == ("http", "http://a/mcp", 7)
    assert (here.transport, here.command, here.env, here.cwd) == ("stdio", "run", {"KEY": "x"}, "/tmp")
    assert here.args == [f"--key={SECRETS['web/TOKEN']}"]
    assert list(configured.servers) == ["other"]


@pytest.mark.parametrize(
    ("said", "forwards"), [(True, {"web"}), (False, set()), ("yes", set()), (None, set())]
)
def test_a_caller_s_bearer_is_for_a_server_that_says_so(said: object, forwards: set[str]) -> None:
    settings = mcp_settings([server(url="http://a", forward_inbound_auth=said)], {}, None)
    assert forwarding_servers(settings) == forwards


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"urls": "x"}, "urls: fast-agent has no such setting of a server; remove it"),
        ({"url": "http://a", "read_timeout_seconds": "x"}, "readTimeoutSeconds: "),
        ({"transport": "carrier-pigeon"}, "transport: "),
        (
            {"url": "http://a", "headers": {"A": "${secret:web/GONE}"}},
            "headers.A: the secret web has no key GONE: ",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_field(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(AgentError) as caught:
        mcp_settings([ServerDefinition(name="web", settings=settings)], SECRETS, None)
    assert str(caught.value).startswith(f"server web: {complaint}")
    assert caught.value.permanent
    assert "0123456789" not in str(caught.value)
