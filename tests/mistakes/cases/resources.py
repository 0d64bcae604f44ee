"""Mistakes in resources, found in their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mistakes.cases.parts import PROJECT
from mistakes.mistake import Mistake

if TYPE_CHECKING:
    from mistakes.mistake import Place


def _resource(kind: str, name: str, spec: str) -> str:
    lines = "".join(f"  {line}\n" for line in spec.splitlines())
    return f"apiVersion: pallas/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n{lines}"


def _kept(name: str, **files: str) -> Mistake:
    """Files by their kind and name, as in `agent_deployer`."""
    paths = {kind_name.replace("_", "/", 1): text for kind_name, text in files.items()}
    kept = {f"../.local/state/pallas/demo/resources/{path}.yaml": text for path, text in paths.items()}
    return Mistake(
        name=name, files={**PROJECT, **kept}, prepare=_lock_secrets, commands=["pallas check --offline"]
    )


def _lock_secrets(place: Place) -> None:
    for secret in place.home.glob(".local/state/pallas/demo/resources/secret/*"):
        secret.chmod(0o600)


SECRET = _resource("secret", "key", "data: {API_KEY: abc}")
LLM = _resource("llm", "qwen", "type: openai\nmodel: qwen\napiKeyRef: key/API_KEY")

MISTAKES = (
    _kept(
        "agent-of-many-mistakes",
        agent_deployer=_resource(
            "agent",
            "deployer",
            "description: >\n  I help.\n\n  A lot.\nllm: qwen\nmodel: openai.gpt-4.1\nservers: search\n"
            "defaultParams: {temperature: 3, max_token: 5, response_format: {}}\nmaxIterations: many\n"
            "run: {port: 99999, module: agents.jarvis, idle_timeout: 5 min}",
        ),
    ),
    _kept("missing-references", agent_deployer=_resource("agent", "deployer", "llm: qwen\nproject: x\nservers: [s]")),
    _kept("key-that-a-secret-lacks", secret_key=SECRET, llm_qwen=LLM.replace("API_KEY", "KEY")),
    _kept("unknown-provider", secret_key=SECRET, llm_qwen=LLM.replace("openai", "ollama")),
    _kept("name-in-both-places", agent_jarvis=_resource("agent", "jarvis", "model: passthrough")),
    _kept("port-that-is-taken", agent_new=_resource("agent", "new", "run: {port: 8201}")),
    _kept("server-of-both-kinds", server_files=_resource("server", "files", "url: http://x/mcp\ncommand: npx")),
    _kept("server-without-either", server_files=_resource("server", "files", "description: files")),
    _kept("number-as-a-secret", secret_key=_resource("secret", "key", "data: {PIN: 4711}")),
    _kept("tabs", agent_deployer="apiVersion: pallas/v1\nkind: agent\nspec:\n\tllm: qwen\n"),
    _kept(
        "agents-that-wait-for-each-other",
        agent_a=_resource("agent", "a", "run: {depends_on: [b]}"),
        agent_b=_resource("agent", "b", "run: {depends_on: [a]}"),
    ),
)  # fmt: skip
