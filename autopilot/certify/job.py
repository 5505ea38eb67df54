"""The job that a certification is: small, short and within its budget. What it runs says what befell its machine."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from autopilot.certify.claim import CertifyFacts
from autopilot.certify.run import PER_PORT, PER_RUN
from autopilot.certify.script import LONGEST
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice, Job, JobSpec, SpotPolicy, Trust
from autopilot.domain.lease import Lease
from autopilot.domain.money import show
from autopilot.domain.reasons import Reason
from autopilot.domain.registry import Registry, server_of

MOST_BUDGET = Decimal(5)
LEAST_BUDGET = Decimal("0.25")
IMAGE = "python:3.12-slim"
LARGE_IMAGE = "tensorflow/tensorflow:2.15.0-gpu"
LARGE_IMAGE_GB = Decimal(3)
"""At least, as it is sent: enough to show on a bill of traffic. Hosts seldom keep it."""
DISK_GB = Decimal(60)
"""Large enough for its price to show on the bill."""
PORT = 70_022
"""Asked for by every machine of a certification, as ``ssh`` asks for it (``mailbox.wire.SSH_PORT``)."""

# SIGTERM lets a file on the disk grow for as long as the process lives; the run after it tells its length.
_PROGRAM = f"""python3 -u -c '
import json, os, signal, sys, time
def warn(*_):
    for second in range(20):
        with open("sigterm", "a") as file:
            file.write(".")
        time.sleep(1)
    sys.exit(0)
signal.signal(signal.SIGTERM, warn)
with open("runs", "a") as file:
    file.write(".")
warned = min(os.path.getsize("sigterm"), {PER_PORT - 1}) if os.path.exists("sigterm") else 0
ports = 0
for host, port in ADDRESSES:
    if os.environ.get(host):
        ports = 2 if os.environ.get(port + "_{PORT}", "").isdigit() else 1
step = {PER_RUN} * os.path.getsize("runs") + {PER_PORT} * ports + warned
while True:
    print(json.dumps(dict(step=step)))
    time.sleep(20)
'"""


def write_program(facts: CertifyFacts) -> str:
    """What the machine runs, as one line of a shell."""
    told = [facts.address_variables] if facts.address_variables else []
    return _PROGRAM.replace("ADDRESSES", json.dumps(told))


NO_LOGIN = Registry(server_of(IMAGE), "autopilot-certify", "")
"""A login that its registry must refuse: no such user, and no password that is stored anywhere."""


def spec_for_lease(job: Job, lease: Lease) -> JobSpec:
    """What that machine is rented with: the job's own, but for a machine whose image must not be pulled."""
    return replace(job.spec, image=IMAGE, registry=NO_LOGIN) if lease.reason is Reason.CERTIFYING_PULL else job.spec


def spec_for(market: str, facts: CertifyFacts, budget: Decimal, gpus: tuple[str, ...], now: datetime) -> JobSpec:
    """Raises ``UserError`` for a budget with which nothing can be proved, or that no proof needs."""
    if not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise UserError(
            f"a certification takes from {show(LEAST_BUDGET)} to {show(MOST_BUDGET)}, not {show(budget)}",
            hint="one dollar is enough for most markets",
        )
    return JobSpec(
        name=f"certify-{market}",
        image=LARGE_IMAGE if facts.bills_traffic else IMAGE,
        run=write_program(facts),
        gpus=tuple(GpuChoice(name) for name in gpus or facts.gpus),
        trust=Trust.VERIFIED,
        disk_gb=DISK_GB,
        max_hourly=facts.max_hourly,
        spot_policy=SpotPolicy.AUTO,
        deadline=now + LONGEST,
        fall_back=False,
        budget=budget,
        progress="json",
        may_exec=False,
    )
