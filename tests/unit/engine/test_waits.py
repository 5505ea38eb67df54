"""Which decisions are recorded, and what is known at each moment of a job that waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from autopilot import render
from autopilot.domain.actions import Acquire, Action, Note, Release, Veto
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Slot
from autopilot.domain.offer import CapacityType
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.outstanding import Money
from autopilot.engine.waits import Waits
from tests.builders import START, D, a_job, a_lease, a_paused_lease, a_spec, an_offer

RENT = Acquire(Slot.MAIN, an_offer(), CapacityType.SPOT, D("0.23"), Reason.CHEAPEST)
RELEASE = Release("lease-1", Reason.OUTBID)
MINUTE = timedelta(minutes=1)


def note_of(condition: str, has: str = "0.95") -> Note:
    return Note("removed", (("condition", condition), ("has", D(has))))


class Recorded:
    """Whether each decision in turn is recorded."""

    def __init__(self) -> None:
        self.waits, self.now = Waits(), START

    def decide(
        self,
        *notes: Note,
        job: Job | None = None,
        allowed: tuple[Action, ...] = (),
        vetoed: Reason | None = None,
        after: timedelta = timedelta(seconds=15),
    ) -> bool:
        self.now += after
        vetoes = () if vetoed is None else (Veto(RENT, vetoed),)
        return self.waits.is_news(job or a_job(), allowed, vetoes, notes, self.now)


def test_a_decision_that_acts_is_recorded_and_one_vetoed_as_before_is_not() -> None:
    at = Recorded()
    running = a_job(a_lease())
    assert at.decide(job=running, vetoed=Reason.OVER_BUDGET)
    assert at.decide(job=running, vetoed=Reason.OVER_BUDGET, allowed=(RELEASE,)), "the release went on"
    assert not at.decide(job=running, vetoed=Reason.OVER_BUDGET)
    assert at.decide(job=running, vetoed=Reason.BID_ABOVE_CEILING)
    assert at.decide(job=running), "the veto is lifted"
    assert not at.decide(job=running)


def test_a_wait_is_recorded_when_what_it_waits_for_changes() -> None:
    at = Recorded()
    assert at.decide(note_of("max_price"))
    assert not any(at.decide(note_of("max_price", f"0.{99 - tick}")) for tick in range(60)), "prices alone"
    assert at.decide(note_of("max_price"), note_of("avoided"), after=10 * MINUTE)
    assert not at.decide(note_of("avoided"), note_of("max_price"), after=10 * MINUTE), "in another order"


def test_causes_that_come_and_go_are_recorded_at_most_every_ten_minutes() -> None:
    at = Recorded()
    rows = sum(at.decide(note_of("max_price" if tick % 2 else "avoided")) for tick in range(4 * 60))
    assert rows == 6, "of an hour"


def test_a_new_wait_after_an_action_is_recorded_at_once() -> None:
    at = Recorded()
    assert at.decide(note_of("max_price"))
    assert at.decide(allowed=(RENT,))
    assert at.decide(note_of("max_price"))


def test_what_a_job_waits_for_now_is_known_with_its_newest_numbers() -> None:
    at = Recorded()
    at.decide(note_of("max_price", "0.95"))
    at.decide(note_of("max_price", "0.90"), vetoed=Reason.TOO_MANY_LAUNCHES)
    wait = at.waits.of(a_job())
    assert wait is not None
    assert (wait.at, wait.notes) == (at.now, (note_of("max_price", "0.90"),))
    assert dict(wait.vetoes[0].numbers)["because"] == Reason.TOO_MANY_LAUNCHES
    assert at.waits.of(a_job(status=JobStatus.PARKED)) is None
    at.decide(job=a_job(a_lease()))
    assert at.waits.of(a_job()) is None
    at.decide(Note("paused", (("cause", Reason.OUTBID),)), job=a_job(a_paused_lease()))
    assert at.waits.of(a_job(a_paused_lease())) is not None
    at.waits.forget([])
    assert at.waits.of(a_job(a_paused_lease())) is None


@pytest.mark.parametrize(
    ("fitting", "problem", "verdict"), [(2, "", "fine"), (0, "", "tight"), (0, "no answer", "fine"), (None, "", "fine")]
)
def test_what_waits_for_an_offer_that_does_not_exist_is_not_on_track(
    fitting: int | None, problem: str, verdict: str
) -> None:
    """A market that could not be searched may have one; what has a machine is judged by its time."""
    job = a_job(spec=a_spec(work_estimate=timedelta(hours=1), deadline=START + timedelta(hours=40)))
    notes = [] if fitting is None else [Note("search", (("gpus", "1×RTX 4090"), ("offers", 3), ("fitting", fitting)))]
    notes += [Note("unsearched", (("provider", "vastai"), ("problem", problem)))] if problem else []
    at = Recorded()
    at.decide(*notes, job=job)
    assert render.job(job, at.now, Params(), Money(), at.waits.of(job))["verdict"] == verdict
