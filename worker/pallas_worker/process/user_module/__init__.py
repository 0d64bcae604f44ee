"""What the agent is made from: the import of a module or file, the loading of cards, and what goes wrong in them."""
