"""fast-agent's private names: the only folder that touches them."""
