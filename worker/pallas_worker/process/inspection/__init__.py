"""An agent's code tried out, in a process of its own, without being served."""
