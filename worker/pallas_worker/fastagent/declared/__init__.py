"""What fast-agent has to be told of an agent that is declared, and has no file of its own."""
