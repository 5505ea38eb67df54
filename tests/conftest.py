"""Its place makes ``tests.builders`` and ``tests.acceptance.stage`` importable from every test."""
