"""What a changed configuration means, and which workers have an old one."""
