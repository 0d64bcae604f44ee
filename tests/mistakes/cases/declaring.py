"""Mistakes with declared agents, in files and on the command line, while a deployment runs."""

from __future__ import annotations

from mistakes.mistake import Mistake

HEAD = "apiVersion: pallas/v1\nkind: agent\nmetadata: {name: reviewer}\nspec:\n"

MISTAKES = (
    Mistake(
        name="resource-with-unknown-keys",
        files={"reviewer.yaml": HEAD + "  descripton: Reviews code\n  llm: qwen3\n  run: {prot: 8205}\n"},
        commands=["pallasctl apply -f reviewer.yaml", "pallasctl diff -f reviewer.yaml"],
    ),
    Mistake(
        name="resource-without-its-llm",
        files={"reviewer.yaml": HEAD + "  llm: qwen3\n  project: {name: platform}\n"},
        commands=[
            "pallasctl apply -f reviewer.yaml",
            "pallasctl apply -f . --dry-run -o json",
            "pallasctl create agent reviewer --llm qwen3",
        ],
    ),
    Mistake(
        name="resource-files",
        files={"empty/notes.txt": "", "nothing.yaml": "# nothing\n"},
        commands=[
            "pallasctl apply",
            "pallasctl apply -f gone.yaml -f empty",
            "pallasctl apply -f nothing.yaml",
            "pallasctl apply -f nothing.yaml --prune",
            "pallasctl delete -f agents.yaml",
        ],
    ),
    Mistake(
        name="resource-of-agents-yaml",
        commands=[
            "pallasctl create agent jarvis --model openai.gpt-4.1",
            "EDITOR=true pallasctl edit agent jarvis",
            "pallasctl delete agent jarvis",
        ],
    ),
    Mistake(
        name="resource-names",
        commands=[
            "pallasctl get agnts",
            "pallasctl get agent jarvs",
            "pallasctl describe llm qwen3",
            "pallasctl delete agent",
            "pallasctl delete jarvis",
            "pallasctl edit agent/jarvis agent/research",
            "pallasctl create agnet reviewer",
            "pallasctl create agent my.agent --model passthrough",
        ],
    ),
    Mistake(
        name="resource-values",
        commands=[
            "pallasctl create secret key --data sk-0123456789abcdef",
            "pallasctl create secret key --from-env NO_SUCH_VARIABLE",
            "pallasctl create agent reviewer --model passthrough --default-temperature 7",
            "pallasctl create llm local --type vllm --model qwen3 --url localhost:8000",
            "pallasctl create server files --url http://localhost/mcp --command npx",
        ],
    ),
)
