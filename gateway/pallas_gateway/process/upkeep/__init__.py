"""What the gateway does by itself, at its start and from time to time: what nobody needs any more goes."""
