"""What holds for every test: property tests make the same examples in every run.

`pytest --hypothesis-profile=default tests/property` looks for new ones.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
