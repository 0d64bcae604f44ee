"""What calls leave in memory goes by itself, and not when Python next looks through everything."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import pytest

from fakes.downstream import run_downstream
from fakes.llm_stub import run_llm_stub
from support.worker.conversation.llm import KEY, config, spec
from support.worker.process import run_worker
from support.worker.project import call, project, text

if TYPE_CHECKING:
    from pathlib import Path

COUNTING = '''
import gc

from fast_agent import FastAgent
from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.llm.fastagent_llm import FastAgentLLM
from fast_agent.types import PromptMessageExtended

gc.disable()
fast = FastAgent("tests")


def alive() -> str:
    """How many agents, LLMs and messages there are; of what was taken apart, an empty object may be left."""
    there = [one for one in gc.get_objects() if getattr(one, "__dict__", None)]
    counts = [sum(isinstance(one, kind) for one in there) for kind in (McpAgent, FastAgentLLM, PromptMessageExtended)]
    return " ".join(map(str, counts)) + " are alive"


@fast.agent(name="child", instruction="x", servers=["tools"])
async def child(): ...


@fast.agent(name="demo", instruction="x", servers=["tools"], function_tools=[alive], agents=["child"])
async def demo(): ...
'''
CALLS = 30
"""Each has two agents at least with their LLMs, and more messages."""
FEW = 25
"""More than there are in those that are made ahead or being disposed of."""


def test_instances_go_with_their_call_without_a_collection(tmp_path: Path) -> None:
    with run_llm_stub() as llm, run_downstream() as tools:
        servers = {"tools": {"transport": "http", "url": tools.url}}
        directory = project(tmp_path, agents=COUNTING, servers=servers, config=config(llm))
        with run_worker(directory, **spec()) as worker:
            told = 'CALL agent__child {"message": "CALL tools__echo {\\"text\\": \\"x\\"}"}'
            for _ in range(CALLS):
                call(worker.url, "auto", "demo", message=told)
            said = text(call(worker.url, "auto", "demo", message="CALL alive {}"))
    counts = [int(word) for word in said.partition(" are alive")[0].split()[-3:]]
    assert all(0 < count < FEW for count in counts), said


MODEL = """
import gc

from fast_agent import FastAgent

gc.disable()
fast = FastAgent("tests")


@fast.agent(name="demo", instruction="x")
async def demo(): ...
"""


@pytest.mark.parametrize("provider", ["openai", "generic", "responses", "anthropic"])
def test_connections_to_the_provider_end_with_their_call(tmp_path: Path, provider: str) -> None:
    with run_llm_stub() as llm:
        url = llm.anthropic_url if provider == "anthropic" else llm.openai_url
        model = f"{provider}.stub-model"
        lines = f"default_model: {model}\n{provider}: {{api_key: {KEY}, base_url: '{url}'}}\n"
        directory = project(tmp_path, agents=MODEL, config=lines)
        with run_worker(directory, **spec() | {"default_model": model}) as worker:
            for _ in range(CALLS):
                call(worker.url, "auto", "demo", message="hello")
            process, port = psutil.Process(worker.process.pid), urlsplit(url).port
            open_ones = [
                one for one in process.net_connections("tcp") if one.raddr and one.raddr.port == port
            ]
    assert len(open_ones) < CALLS / 2
