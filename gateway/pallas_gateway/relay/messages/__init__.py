"""Calls and answers as data, and how they go from one era of the protocol to the other."""
