"""Every place of fast-agent that runs a tool is one that the guard stands before, or one that is switched off.

The places are found by walking the source of the installed version: a newer one that runs a tool somewhere else fails
here, and somebody has to look at it before Pallas takes that version.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import fast_agent

SOURCE = Path(fast_agent.__file__).parent

FOR_PEOPLE = (
    "ui",
    "cli",
    "acp",
    "commands",
    "batch",
    "cards",
    "marketplace",
    "eval",
    "integrations",
    "resources",
)
"""Folders whose code runs when a person works with fast-agent at a terminal or an editor; no worker calls it."""

RUNNING = frozenset(
    {"call_tool", "run_tools", "_dispatch_tool_call", "_run_child_tool_clone", "_call_human_input_tool"}
)
"""Methods that run a tool, or all of a message; whatever calls one of them is a place to look at."""

STARTING = frozenset(
    {"create_subprocess_exec", "create_subprocess_shell", "Popen", "exec", "eval", "AsyncMonty"}
)
"""What starts a program or runs code that is made up at run time."""

JUDGED = "only from `run_tools`, which the guard wraps and where each call of a message is judged"
FOLLOWED = "from `call_tool`, which the guard wraps and which refuses what the agent may never call"
SHELL = "below the `call_tool` of the shell, which only `McpAgent._call_local_tool` calls"
OFF = "programmatic tool calling, which `guard_tools` switches off"

PLACES = {
    "agents/mcp_agent.py McpAgent.call_tool -> self._dispatch_tool_call": FOLLOWED,
    "agents/mcp_agent.py McpAgent._dispatch_tool_call -> self._aggregator.call_tool": FOLLOWED,
    "agents/mcp_agent.py McpAgent._call_ptc_tool -> runtime.execute": OFF,
    "agents/mcp_agent.py McpAgent._call_ptc_nested_tool -> self._dispatch_tool_call": OFF,
    "agents/mcp_agent.py McpAgent._call_local_tool -> self._external_runtime.execute": FOLLOWED,
    "agents/mcp_agent.py McpAgent._call_local_tool -> self._filesystem_runtime.call_tool": FOLLOWED,
    "agents/mcp_agent.py McpAgent._call_local_tool -> self._skill_reader.execute": FOLLOWED,
    "agents/mcp_agent.py McpAgent._call_local_tool -> self._shell_runtime.call_tool": FOLLOWED,
    "agents/mcp_agent.py McpAgent._call_builtin_tool -> self._call_human_input_tool": FOLLOWED,
    "agents/mcp_agent.py McpAgent._call_builtin_tool -> super().call_tool": FOLLOWED,
    "agents/mcp_agent.py McpAgent._execute_mcp_planned_tool_call -> self.call_tool": JUDGED,
    "agents/tool_agent.py ToolAgent._execute_tool_for_plan -> self.call_tool": JUDGED,
    "agents/tool_agent.py ToolAgent.call_tool -> fast_tool.run": FOLLOWED,
    "agents/tool_runner.py ToolRunner.generate_tool_call_response -> self._agent.run_tools": "the guard itself",
    "agents/workflow/agents_as_tools_agent.py AgentsAsToolsAgent.run_tools -> super().run_tools": "the guard itself",
    "agents/workflow/agents_as_tools_agent.py AgentsAsToolsAgent.call_tool -> super().call_tool": FOLLOWED,
    "agents/workflow/agents_as_tools_agent.py AgentsAsToolsAgent._execute_child_tool_calls_sequential"
    " -> self._run_child_tool_clone": JUDGED,
    "agents/workflow/agents_as_tools_agent.py AgentsAsToolsAgent._execute_child_tool_calls_parallel.bounded_call"
    " -> self._run_child_tool_clone": JUDGED,
    "mcp/client_connection.py MCPClientConnection.call_tool -> self.client.call_tool": "below the aggregator",
    "mcp/mcp_aggregator.py MCPAggregator._execute_session_method -> client.call_tool": "below the aggregator",
    "ptc/runtime.py ProgrammaticToolRuntime._checkout -> AsyncMonty": OFF,
    "tools/composite_filesystem_runtime.py CompositeFilesystemRuntime.call_tool -> target_runtime.call_tool": FOLLOWED,
    "tools/docker_shell_environment.py DockerManagedShellEnvironment.close -> asyncio.create_subprocess_exec": SHELL,
    "tools/docker_shell_environment.py DockerManagedShellEnvironment.open -> asyncio.create_subprocess_exec": SHELL,
    "tools/docker_shell_environment.py DockerShellEnvironment._docker_exec_bytes"
    " -> asyncio.create_subprocess_exec": SHELL,
    "tools/docker_shell_environment.py DockerShellEnvironment.execute -> asyncio.create_subprocess_exec": SHELL,
    "tools/durable_process_supervisor.py _supervise -> subprocess.Popen": SHELL,
    "tools/durable_processes.py DurableProcessStore.launch -> subprocess.Popen": SHELL,
    "tools/execution_environment.py execute_shell -> environment.execute": SHELL,
    "tools/local_shell_executor.py LocalShellExecutor._start_shell_process -> asyncio.create_subprocess_exec": SHELL,
    "tools/local_shell_executor.py LocalShellExecutor._start_shell_process -> asyncio.create_subprocess_shell": SHELL,
    "tools/shell_runtime.py ShellRuntime._execute_shell_command -> self._environment.execute": SHELL,
    "tools/shell_runtime.py ShellRuntime._start_managed_process -> self._environment.execute": SHELL,
}


def test_no_tool_runs_past_the_guard() -> None:
    assert places() == set(PLACES)


def places() -> set[str]:
    """Return each place of the installed fast-agent as `file qualified.name -> what is called`."""
    return {
        f"{path.relative_to(SOURCE)} {name} -> {called}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in FOR_PEOPLE
        for name, called in _running(ast.parse(path.read_text()))
    }


def _running(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    for node in ast.iter_child_nodes(tree):
        name = inside
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{node.name}".strip(".")
        elif isinstance(node, ast.Call) and _runs_a_tool(node.func):
            yield inside, ast.unparse(node.func)
        yield from _running(node, name)


def _runs_a_tool(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(attr="execute", value=owner):
            return any(word in ast.unparse(owner) for word in ("runtime", "reader", "environment", "tool"))
        case ast.Attribute(attr="run", value=owner):
            return "tool" in ast.unparse(owner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in RUNNING or name in STARTING
    return False
