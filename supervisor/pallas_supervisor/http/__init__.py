"""What the supervisor answers over HTTP: the control API and the registry port."""
