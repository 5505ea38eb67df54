"""Its place makes ``tests.builders`` and ``tests.acceptance.stage`` importable from every test."""

from hypothesis import settings

from tests.pg import postgres_server, postgres_template, postgres_url, private_postgres

__all__ = ["postgres_server", "postgres_template", "postgres_url", "private_postgres"]

# The same examples each time, and none fails for being slow: tests are not timed.
settings.register_profile("autopilot", deadline=None, derandomize=True)
settings.load_profile("autopilot")
