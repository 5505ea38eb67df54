"""How often to save: often enough that little is lost, seldom enough that saving costs little (Young and Daly).

A checkpoint that costs the job ``C`` of its time, on a machine that is lost every ``M`` on average, is best taken each
√(2·C·M). What it costs is the time for the copy, in which the disk is busy, and a small share of that for the upload,
which runs beside the work.
"""

from __future__ import annotations

from datetime import timedelta
from math import sqrt

UPLOAD_DRAG = 0.05
"""Share of its time by which an upload slows the job down."""
LONGEST_MEAN_S = 7 * 86_400.0
SHORTEST = timedelta(seconds=10)


def checkpoint_interval(
    usual: timedelta,
    max_loss: timedelta | None,
    save_s: float | None,
    upload_s: float | None,
    hazard_per_h: float,
) -> timedelta:
    """Time from the end of one checkpoint to the beginning of the next.

    ``usual`` is taken as long as nothing was measured. ``save_s`` and ``upload_s`` are what the last one took. Never
    so long that a loss just before the next one is complete would cost more than ``max_loss``.
    """
    if save_s is None or upload_s is None:
        wanted, taken = usual, timedelta(0)
    else:
        cost_s = max(save_s + UPLOAD_DRAG * upload_s, 1.0)
        taken = timedelta(seconds=save_s + upload_s)
        mean_s = min(3600 / hazard_per_h, LONGEST_MEAN_S) if hazard_per_h > 0 else LONGEST_MEAN_S
        wanted = max(timedelta(seconds=sqrt(2 * cost_s * mean_s)), taken)
    if max_loss is not None:
        wanted = min(wanted, max_loss - taken)
    return max(wanted, SHORTEST)
