"""Whose machine may be entered, and when: what ``exec`` and ``ssh`` have in common."""

from __future__ import annotations

import os

from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, Role


def machine_of(job: Job, uid: int) -> Lease:
    """The one that runs the job, if ``uid`` may enter it. Raises ``UserError``."""
    name = job.spec.name
    if uid not in (job.owner, os.getuid(), 0):
        raise UserError(f"job {name} is another user's", hint="ask the user who submitted it")
    main = job.main
    if main is None or main.instance_id is None or main.observed.running_since is None:
        raise UserError(f"job {name} has no running machine", hint="autopilot show shows its state")
    if main.orders.role is not Role.RUN:
        raise UserError(f"the machine of job {name} is saving and stopping", hint="try again on its next machine")
    if not main.agent.state:
        raise UserError(f"the machine of job {name} is loading", hint="try again once autopilot ps shows its work")
    return main
