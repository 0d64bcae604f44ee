"""How the status page looks. Pure."""
