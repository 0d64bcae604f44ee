"""Resources for tests: written as documents, read as Pallas reads them."""

from __future__ import annotations

import json
from typing import Any

from pallas_registry.resources.documents import read_resources
from pallas_registry.resources.model import Resource, ResourceSet

FILE = "resources.yaml"

SAMPLE = """\
apiVersion: mcpctl.io/v1
kind: agent
metadata: { name: deployer }
spec:
  description: "I help you deploy code"
  llm: qwen3-thinking # shorthand for `{ name: qwen3-thinking }`
  project: mcpctl-dev # shorthand for `{ name: mcpctl-dev }`
  systemPrompt: |
    You are a deployment assistant for mcpctl. Always check fulldeploy.sh
    and the k8s context before suggesting actions.
  defaultParams:
    temperature: 0.2
    max_tokens: 4096
    top_p: 0.9
    stop: ["</deploy>"]
"""
"""An agent as the system writes it whose `apiVersion` is read as ours."""


def document(kind: str, name: str, spec: object, **metadata: object) -> dict[str, Any]:
    """A resource as JSON."""
    return {"apiVersion": "pallas/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def text_of(*documents: dict[str, Any]) -> bytes:
    """Documents as a file: one of YAML that holds JSON."""
    return b"---\n".join(json.dumps(each, indent=1).encode() + b"\n" for each in documents)


def resource(kind: str, name: str, spec: object, **metadata: object) -> Resource:
    """The resource, which has to be a good one."""
    (found,), problems, _ = read_resources(text_of(document(kind, name, spec, **metadata)), FILE)
    assert not problems, problems
    return found


def resources(*said: tuple[str, str, object]) -> ResourceSet:
    """Good resources, each by kind, name and spec."""
    return ResourceSet(resource(*each) for each in said)


def spec_of(kind: str, spec: object) -> dict[str, Any]:
    """The canonical spec of a good resource."""
    return dict(resource(kind, "x", spec).spec)


def refusals(kind: str, spec: object) -> list[tuple[str, str, str]]:
    """What is wrong with the spec: field, message, remedy."""
    found, problems, _ = read_resources(text_of(document(kind, "x", spec)), FILE)
    assert not found
    return [(each.field, each.message, each.remedy) for each in problems]


def digest_of(secret: Resource, key: str) -> str:
    """How one of its values is shown."""
    return digest(f"{secret.id.name}/{key}/{secret.spec['data'][key]}")


def digest(value: str) -> str:
    """Stands for the keyed digest of a value."""
    return f"hmac-sha256:{value.encode().hex():0>16.16}"
