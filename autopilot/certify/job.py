"""The job that a certification is: small, short and within its budget. What it runs says what befell its machine."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from autopilot.certify.script import LONGEST, PER_RUN, WAS_WARNED
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice, JobSpec, SpotPolicy, Trust
from autopilot.domain.money import show

MOST_BUDGET = Decimal(5)
LEAST_BUDGET = Decimal("0.25")
MOST_HOURLY = Decimal("0.60")
"""$/h: a certification takes about an hour and a half."""
IMAGE = "python:3.12-slim"
DISK_GB = Decimal(60)
"""Large enough for its price to show on the bill."""
GPUS = ("RTX 3060", "RTX 3090", "RTX 4090")
"""Small ones that the markets have plenty of."""

# SIGTERM leaves a file on the disk; the run after it finds that file and says so.
PROGRAM = f"""python3 -u -c '
import json, os, signal, sys, time
def warn(*_):
    open("sigterm", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, warn)
with open("runs", "a") as file:
    file.write(".")
step = {PER_RUN} * os.path.getsize("runs") + {WAS_WARNED} * os.path.exists("sigterm")
while True:
    print(json.dumps(dict(step=step)))
    time.sleep(20)
'"""


def spec_for(market: str, budget: Decimal, gpus: tuple[str, ...], now: datetime) -> JobSpec:
    """Raises ``UserError`` for a budget with which nothing can be proved, or that no proof needs."""
    if not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise UserError(
            f"a certification takes from {show(LEAST_BUDGET)} to {show(MOST_BUDGET)}, not {show(budget)}",
            hint="one dollar is enough for most markets",
        )
    return JobSpec(
        name=f"certify-{market}",
        image=IMAGE,
        run=PROGRAM,
        gpus=tuple(GpuChoice(name) for name in gpus or GPUS),
        trust=Trust.VERIFIED,
        disk_gb=DISK_GB,
        max_hourly=MOST_HOURLY,
        spot_policy=SpotPolicy.AUTO,
        deadline=now + LONGEST,
        fall_back=False,
        budget=budget,
        progress="json",
        may_exec=False,
    )
