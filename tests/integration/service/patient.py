"""``python -m`` of this is the command line, without limits that a loaded machine runs into where all goes well.

What the product gives up after so many seconds is not what most tests are about: they wait for what happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

NEVER_S = 3600.0
UMASK = "UMASK_OF_TEST"
"""An environment variable: a forked process has the umask of its parent."""
LIMITS = (
    "autopilot.engine.engine.CALLS_WAIT_REAL_S",
    "autopilot.engine.observe.READ_WAIT_REAL_S",
    "autopilot.engine.observe.OFFERS_WAIT_REAL_S",
    "autopilot.providers.vastai.inbox.READ_WAIT_REAL_S",
    "autopilot.service.main.CREATE_GRACE_REAL_S",
    "autopilot.service.meeting_place.LISTENER_STARTS_WITHIN_S",
    "autopilot.service.meeting_place.LISTENER_WITHIN_S",
    "autopilot.service.page_address.OPEN_WITHIN_S",
    "autopilot.store.leader.SILENT_AFTER_S",
)


def be_patient(set_limit: Callable[[str, float], None]) -> None:
    for name in LIMITS:
        set_limit(name, NEVER_S)


def _set(name: str, value: float) -> None:
    module, _, attribute = name.rpartition(".")
    setattr(import_module(module), attribute, value)


if __name__ == "__main__":
    from autopilot.cli.main import main

    if UMASK in os.environ:
        os.umask(int(os.environ[UMASK], 8))
    be_patient(_set)
    main()
