"""Strict reading of YAML: files, nodes with lines, typed fields, rules for values."""
