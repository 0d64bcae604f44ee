"""fast-agent, driven as a library.

The only folder that touches fast-agent's private names and undocumented modules. What a worker cannot do
without is checked at the start (`names`); what only saves time (`shortcuts`) is left out where it has moved.
"""

from pallas_worker.fastagent.runtime import AgentRuntime, Instance, open_runtime, settings_of

__all__ = ["AgentRuntime", "Instance", "open_runtime", "settings_of"]
