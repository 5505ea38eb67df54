"""The same examples at every run: a failure is the code's, never the day's."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=80)
settings.load_profile("repeatable")
