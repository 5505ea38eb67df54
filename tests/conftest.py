"""Its place makes ``tests.builders`` and ``tests.acceptance.stage`` importable from every test."""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from tests.pg import patient_sessions, postgres_server, postgres_template, postgres_url, private_postgres

__all__ = ["patient_sessions", "postgres_server", "postgres_template", "postgres_url", "private_postgres"]

# It would draw constants of all modules that happen to be imported as well: other examples in each worker of each run.
HypothesisProvider._local_constants = Constants()  # type: ignore[method-assign, assignment]

# A ledger waits for the disk at each commit, as it should. In memory, where there is room, tests take half the time.
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 4 * 1024**3
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES:
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None


# Ten thousand collected tests and all modules stay to the end: looking through them again and again took a tenth of the
# time.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """The same examples each time, in ``make check`` twice as many; none fails for being slow: tests are not timed."""
    examples = 40 if config.option.markexpr == "not slow" else 80
    settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, max_examples=examples)
    settings.load_profile("repeatable")


HANGS_AFTER_S = 3600
"""What ``timeout`` in pyproject.toml is for a test that is slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(HANGS_AFTER_S))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
