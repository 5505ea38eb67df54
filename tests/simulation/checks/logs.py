"""The product's log within a run: silent, except for unexpected errors."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog


@contextmanager
def watch_log(report: Callable[[str, object], None]) -> Iterator[None]:
    """``report(event, exception)`` for every error that is logged with one."""

    def look(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        problem = event.get("exc_info")
        if problem:
            report(str(event.get("event")), _exception(problem))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[look], wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.configure(**before)


def _exception(problem: object) -> object:
    if problem is True:
        return sys.exc_info()[1]
    return problem[1] if isinstance(problem, tuple) else problem
