"""How much a schema, and an answer to it, may be: checking runs on an event loop that serves others, too.

Knows numbers; must not know how schemas are read.
"""

LONGEST_SCHEMA = 128 * 1024
"""Characters of the schema as JSON."""

DEEPEST = 64
"""Levels of lists and mappings within each other, of a schema and of an answer."""

MOST_SCHEMAS = 2_000
"""Schemas within the schema."""

MOST_UNFOLDED = 10_000
"""The same, each counted as often as references and alternatives lead to it: the steps of checking one value."""

MOST_CHOICES = 2_000
"""Values of all `enum`s together."""

MOST_PATTERNS = 32
LONGEST_PATTERN = 1_000
PATTERN_BYTES = 256 * 1024
"""Of the program that a pattern is compiled to, and of what its engine keeps while it runs."""

LONGEST_ANSWER = 256 * 1024
"""Characters."""

MOST_VALUES = 25_000
"""Values and keys of an answer."""

MOST_WORK = 2_000_000
"""Steps of checking one answer, 10 to 20 ns each where all of them have to be taken."""

CHARACTERS_A_STEP = 16
"""Of texts, which patterns and formats read."""

MOST_MISFITS = 10
"""Of one answer that are named."""
