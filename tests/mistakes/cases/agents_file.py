"""Mistakes in agents.yaml: said by a check and by a start in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mistakes.cases.parts import GOOD, HEAD
from mistakes.mistake import Mistake

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE = "  jarvis: {module: agents.jarvis, port: 8201}\n"

TEXTS = {
    "unknown-key": GOOD.replace("    port: 8201\n", "    port: 8201\n    depend_on: [research]\n"),
    "unknown-key-at-the-top": GOOD.replace("registry_port", "regsitry_port"),
    "duplicate-key": GOOD + "  jarvis:\n    module: agents.other\n    port: 8203\n",
    "duplicate-port": GOOD.replace("8202", "8201"),
    "registry-port-used-twice": GOOD.replace("8202", "8200"),
    "cycle": GOOD.replace("    port: 8201\n", "    port: 8201\n    depends_on: [research]\n")
    + "    depends_on: [jarvis]\n",
    "depends-on-itself": GOOD + "    depends_on: [research]\n",
    "unknown-dependency": GOOD + "    depends_on: [jarvs]\n",
    "tab": GOOD.replace("    module: agents.jarvis", "\tmodule: agents.jarvis"),
    "indentation": GOOD.replace("    port: 8201", "   port: 8201"),
    "no-module": f"{HEAD}  jarvis:\n    port: 8201\n",
    "no-port": f"{HEAD}  jarvis:\n    module: agents.jarvis\n",
    "module-and-card": f"{HEAD}  jarvis:\n    module: agents.jarvis\n    card: cards/jarvis.md\n    port: 8201\n",
    "port-out-of-range": GOOD.replace("8201", "99999"),
    "port-as-word": GOOD.replace("8201", "http"),
    "bad-agent-name": GOOD.replace("  jarvis:", "  Jar vis:"),
    "bad-deployment-name": GOOD.replace("name: demo", "name: My Demo!"),
    "no-name": GOOD.replace("name: demo\n", ""),
    "bad-host": GOOD.replace("name: demo\n", "name: demo\nhost: http://localhost\n"),
    "agents-as-list": "name: demo\nregistry_port: 8200\nagents:\n  - jarvis\n",
    "module-as-path-that-is-not-there": GOOD.replace("agents.jarvis", "agents/jarvis.py"),
    "module-with-slash": GOOD.replace("agents.jarvis", "agents/jarvis"),
    "module-with-hyphen": GOOD.replace("agents.jarvis", "agents.my-jarvis"),
    "missing-card": GOOD.replace("module: agents.jarvis", "card: cards/jarvis.md"),
    "time-without-unit": GOOD + "    start_timeout: soon\n",
    "memory-unit": GOOD + "    memory_limit: lots\n",
    "restart-word": GOOD + "    restart: sometimes\n",
    "unset-variable": GOOD + "    env: {REGION: '${REGION}'}\n",
    "module-of-python": GOOD.replace("agents.jarvis", "math"),
    "empty-card-folder": GOOD.replace("module: agents.jarvis", "card: cards"),
    "no-such-python": GOOD + "    python: .venv/bin/python\n",
    "output-schema-of-elsewhere": GOOD + "    output_schema:\n      type: object\n"
    "      properties:\n        who: {$ref: 'https://example.org/person.json'}\n",
    "output-schema-with-lookahead": GOOD
    + "    output_schema:\n      type: string\n      pattern: ^(?=.*\\d)\\w+$\n",
    "output-schema-that-is-not-there": GOOD + "    output_schema: schemas/answer.json\n",
    "output-schema-with-yes": GOOD + "    output_schema:\n      enum: [yes, no]\n",
    "gateway-key": GOOD.replace("agents:\n", "gateway: {prot: 8299}\nagents:\n"),
    "gateway-port-used-twice": GOOD.replace("agents:\n", "gateway: {port: 8201}\nagents:\n"),
    "gateway-without-tokens-for-everybody": GOOD.replace(
        "agents:\n", "gateway:\n  bind: 0.0.0.0\n  auth: none\nagents:\n"
    ),
    "gateway-store": GOOD.replace("agents:\n", "gateway:\n  store: mysql://me:secret@db/pallas\nagents:\n"),
    "gateway-shared": GOOD.replace("agents:\n", "gateway: {shared: true}\nagents:\n"),
    "gateway-grant": GOOD.replace(
        "agents:\n",
        "gateway:\n  public_url: https://agents.example.com/mcp\n  oidc:\n"
        "    issuer: http://login.example.com\n    audience: pallas\n    groups: {all: [call:agents]}\nagents:\n",
    ),
    "empty": "",
}


def _cases() -> Iterator[Mistake]:
    for name, text in TEXTS.items():
        yield Mistake(
            name=name,
            files={"agents.yaml": text, "math.py": "", "cards/readme.txt": ""},
            commands=["pallas check --offline", *(["pallas"] if name != "unset-variable" else [])],
        )
    yield Mistake(name="no-file", commands=["pallas", "pallas check", "pallas check other.yaml"])
    yield Mistake(
        name="literal-key",
        files={
            "agents.yaml": GOOD + "    env:\n      OPENAI_API_KEY: sk-abcdefghijklmnopqrstuvwxyz0123456789\n"
        },
        commands=["pallas check --offline"],
    )
    gateway = "gateway:\n  store: postgresql://me:secret@db/pallas\n  auth: none\nagents:\n"
    yield Mistake(
        name="gateway-open-to-others",
        files={"agents.yaml": GOOD.replace("agents:\n", gateway)},
        commands=["pallas check --offline"],
    )
    gateway = (
        "gateway:\n  oidc:\n    issuer: https://login.example.com\n    audience: pallas\n"
        "    client_id: pallas\n    client_secret: a secret of the client\nagents:\n"
    )
    yield Mistake(
        name="gateway-client-secret",
        files={"agents.yaml": GOOD.replace("agents:\n", gateway)},
        commands=["pallas check --offline", "PALLAS_GATEWAY_CLIENT_SECRET=gehäim pallas check --offline"],
    )


MISTAKES = tuple(_cases())
