"""Its place makes ``tests.builders`` and ``tests.acceptance.stage`` importable from every test."""

from tests.pg import postgres_server, postgres_template, postgres_url, private_postgres

__all__ = ["postgres_server", "postgres_template", "postgres_url", "private_postgres"]
