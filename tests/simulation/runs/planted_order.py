"""Planted bugs of the order in which jobs come."""

from __future__ import annotations

from typing import Any

from autopilot.domain.after import After
from autopilot.domain.job import JobStatus
from autopilot.engine import engine, predecessors, task_pairs
from tests.simulation.runs.bug import Patches, bug


@bug("a job begins although one that it waits for goes on")
def _begun_early() -> Patches:
    def early(job: Any, known: Any, now: Any) -> Any:
        ended = {id: t if t.status.is_final else t._replace(status=JobStatus.SUCCEEDED) for id, t in known.items()}
        return judge(job, ended, now)

    judge = predecessors.judge
    return [(predecessors, "judge", early)]


@bug("a task begins although the one of its number that it follows has not succeeded")
def _task_begun_early() -> Patches:
    return [(task_pairs.Pairing, "may_begin", lambda *_: True), (task_pairs.Pairing, "partners", lambda *_: {})]


@bug("a job begins however one that it waits for has ended")
def _begun_anyhow() -> Patches:
    return [(After, "is_met_by", lambda *_: True)]


@bug("a job goes on waiting although all that it waits for have ended")
def _never_begun() -> Patches:
    async def judge_none(*_: Any) -> None:
        return None

    return [(engine, "judge_waiting", judge_none)]
