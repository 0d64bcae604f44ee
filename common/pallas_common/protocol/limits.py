"""What an agent may take unless its entry in `agents.yaml` says otherwise: for the reader of that file, and workers."""

MAX_CONCURRENCY = 32
"""Calls of one agent that run at a time, unless its entry says otherwise."""
MAX_QUEUE = 128
"""Calls that wait for their turn, unless the agent's entry says otherwise."""
MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""Bytes of one request's body, unless the agent's entry says otherwise: room for images in a long history."""
LIVENESS_INTERVAL = 5.0
"""Seconds from one heartbeat of a worker to the next, unless the agent's entry says otherwise."""
SLOW_AFTER = 1.0
"""Seconds beyond which a health probe counts as slow, unless the agent's entry says otherwise."""
MINIMUM_LIVENESS_INTERVAL = 0.1
"""Seconds that an agent's entry may say."""
