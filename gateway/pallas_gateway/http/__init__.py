"""The gateway's port: who may ask, then what is answered where."""
