"""What a machine reads of itself, as people read it."""

from __future__ import annotations

from datetime import datetime, timedelta

from autopilot.answers.jobs import Lease, NewestReadings, Recognised
from autopilot.words import text

FRESH = timedelta(minutes=3)
"""Older readings are shown with their age."""
SOURCES = {
    "bar": "a bar in the output says",
    "step": "steps in the output say",
    "epochs": "epochs in the output say",
    "trainer": "the Trainer's log says",
    "saved": "trainer_state.json says",
}
GPUS_SHOWN = 4
"""With more GPUs, their mean is shown."""


def busy(taken: NewestReadings | None) -> float | None:
    """0..1, on average over the GPUs that say it."""
    known = [gpu.busy for gpu in (taken and taken.gpus) or [] if gpu.busy is not None]
    return sum(known) / len(known) if known else None


def tell(lease: Lease | None, now: datetime) -> str:
    """``GPU 97%, 21 of 24 GB; disk 12 GB free; load 3.1; a bar in the output says 45% (90% sure)``.

    Empty if nothing was ever read.
    """
    taken = lease.readings if lease else None
    if not taken:
        return ""
    parts = [_tell_gpus(taken)]
    if taken.disk_free is not None:
        parts.append(f"disk {text.size(taken.disk_free)} free")
    if taken.load is not None:
        parts.append(f"load {taken.load:.1f}")
    if taken.recognised is not None:
        parts.append(tell_recognised(taken.recognised))
    at = taken.at
    age = f" ({text.relative(at, now)})" if at is not None and now - at > FRESH else ""
    return "; ".join(parts) + age


def tell_recognised(output: Recognised) -> str:
    """``a bar in the output says 45% (step 450, 3 h 20 min left, 90% sure)``."""
    step = "" if output.step is None else f"step {output.step:,}, "
    left = "" if output.left_s is None else f"{text.span(output.left_s)} left, "
    sure = f"{text.percent(output.confidence)} sure"
    source = SOURCES.get(output.form, "the output says")
    return f"{source} {text.percent(output.fraction)} ({step}{left}{sure})"


def _tell_gpus(taken: NewestReadings) -> str:
    gpus = taken.gpus or []
    if not gpus:
        return "GPU unknown"
    each = [text.percent(gpu.busy) if gpu.busy is not None else "?" for gpu in gpus]
    if len(gpus) > GPUS_SHOWN and (mean := busy(taken)) is not None:
        each = [f"{text.percent(mean)} on average"]
    told = f"GPU {each[0]}" if len(gpus) == 1 else f"{len(gpus)} GPUs {' '.join(each)}"
    both = [(gpu.memory_used, gpu.memory_total) for gpu in gpus if gpu.memory_used is not None and gpu.memory_total]
    if not both:
        return told
    used, total = map(sum, zip(*both, strict=True))
    return f"{told}, {_gib(used)} of {_gib(total)} GB"


def _gib(count: int) -> str:
    """GPU memory is sold by the GiB and called GB."""
    amount = count / (1 << 30)
    return f"{amount:.0f}" if amount >= 10 or not count else f"{amount:.1f}"
