"""Processes that share out long computations, and end with the one that began them, however that one ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any


def workers(processes: int, prepare: Callable[..., None], *args: Any) -> ProcessPoolExecutor:
    """A pool of so many. Each calls ``prepare(*args)`` first; what it is given must be picklable."""
    # Spawned: a fork would copy the threads of a progress bar half.
    return ProcessPoolExecutor(processes, get_context("spawn"), _begin, (prepare, args))


def _begin(prepare: Callable[..., None], args: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare(*args)


def _end_with_parent() -> None:
    """A killed parent stops no worker. A waiting worker sees no end of the pipe: it holds the pipe open itself."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
