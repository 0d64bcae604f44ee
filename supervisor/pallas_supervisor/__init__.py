"""The parts of the supervisor, one folder each; `pallas.daemon` puts them together."""
