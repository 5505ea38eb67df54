"""One job's numbers never cost the others their tick."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from autopilot.clock import ManualClock
from autopilot.engine.certification import Certification, CertifyRules
from autopilot.engine.conditions import ConditionLog
from autopilot.engine.dialling import Dialling
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import START, D, a_job, a_spec


async def test_a_pace_beyond_all_numbers_keeps_nothing_from_the_other_jobs() -> None:
    deadline = START + timedelta(hours=5)
    absurd = a_job(
        spec=a_spec(deadline=deadline, work_estimate=timedelta(hours=1)),
        paces=(("RTX 4090:1", D("1e-30")),),
        progress=D("0.1"),
    )
    poor = replace(a_job(spec=a_spec(budget=D(10)), spent=D(9)), id="job-poor")
    store = MemoryStore()
    async with store.transaction() as uow:
        await uow.jobs.save_all([absurd, poor])
        dialling = Dialling({}, None, ManualClock(START))
        certification = Certification(CertifyRules(), {}, dialling)
        await ConditionLog({}, lambda name, now: False, certification, dialling.list_troubles).note(
            uow, {}, [absurd, poor], (), None, START
        )
    async with store.snapshot() as uow:
        events = await uow.events.list_after()
    assert [(event.name, event.job_id) for event in events] == [("budget.ran_low", "job-poor")]
