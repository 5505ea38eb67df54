"""For training code that runs under autopilot: when to save, and that a save is whole.

    from autopilot import checkpoint

    for step in range(start, steps):
        train(step)
        if checkpoint.should_save():
            torch.save(state, path)
            checkpoint.saved(path, step=step)
        checkpoint.progress(step, steps)

Optional: without it the agent saves what changes at the job's checkpoint path by the clock. Python 3.8 or newer,
standard library only; the agent brings this same file to every machine. Elsewhere nothing happens but that
``should_save`` says yes every ten minutes, so that the same script runs at home.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

AT_HOME_EVERY_S = 600.0

_started = time.monotonic()
_saved_at = _started
_told_to_stop = False
_watching = False


def path(otherwise: str = "checkpoint") -> str:
    """Where the job's checkpoint is restored to and looked for; ``otherwise`` where there is no autopilot."""
    return os.environ.get("AUTOPILOT_CHECKPOINT_PATH") or otherwise


def should_save() -> bool:
    """Whether a checkpoint is due, or the machine is about to be given up (SIGTERM). Cheap: call it every step."""
    _watch_sigterm()
    request = os.environ.get("AUTOPILOT_SAVE_REQUEST")
    if _told_to_stop:
        return True
    if not request:
        return time.monotonic() - _saved_at >= AT_HOME_EVERY_S
    return _read_request() != _answered


def saved(path: str | None = None, *, step: int | None = None) -> None:
    """Report a complete checkpoint of that step at its path. After SIGTERM this ends the program (code 143)."""
    global _saved_at, _answered
    _saved_at, _answered = time.monotonic(), _read_request()
    mark = os.environ.get("AUTOPILOT_CHECKPOINT_MARK")
    if mark:
        _write(mark, {"path": path, "step": step})
    if _told_to_stop:
        sys.exit(128 + signal.SIGTERM)


def progress(step: int, total: int | None = None) -> None:
    """How far the work is: shown, used to foretell its end, and to notice that it hangs."""
    place = os.environ.get("AUTOPILOT_PROGRESS_FILE")
    if place:
        _write(place, {"step": int(step), "progress": min(max(step / total, 0.0), 1.0) if total else None})


def mlflow_run(run_id: str) -> None:
    """The MLflow run of this job: from its next checkpoint on, other machines find it in ``MLFLOW_RUN_ID``."""
    place = os.environ.get("AUTOPILOT_MLFLOW_RUN")
    if place:
        with open(place, "w") as file:
            file.write(run_id)


def _read_request() -> int:
    """When the agent asked last: compared for being another, never for being later, for clocks are set back."""
    try:
        return os.stat(os.environ["AUTOPILOT_SAVE_REQUEST"]).st_mtime_ns
    except (KeyError, OSError):
        return 0


_answered = _read_request()  # what was asked of an earlier run


def _write(place: str, body: dict[str, Any]) -> None:
    """Whole or not at all: the agent reads it at any moment."""
    scratch = f"{place}.{os.getpid()}.tmp"
    with open(scratch, "w") as file:
        json.dump(body, file)
    os.replace(scratch, place)


def _watch_sigterm() -> None:
    """A program that does not handle SIGTERM itself gets to save first."""
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        return
    _watching = True
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(*_: Any) -> None:
    global _told_to_stop
    _told_to_stop = True
