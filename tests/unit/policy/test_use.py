"""What the use of a market shows of its claims, and when that proves the market."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from autopilot.certify.use import Use, Watcher, find_end_claim
from autopilot.domain.certificate import (
    DELETE,
    LABEL,
    OWN_ID,
    OWN_KEY,
    ClaimFinding,
    ClaimVerdict,
    UseProof,
    judge_use,
)
from autopilot.domain.lease import Ending, Lease, LeaseState, Permit
from autopilot.domain.offer import DeadMan
from autopilot.domain.reasons import Reason
from autopilot.domain.remark import Remark, RemarkKind
from tests.builders import START, a_lease, an_instance, at

HELD, BROKEN, NOT_SEEN = ClaimVerdict.HELD, ClaimVerdict.BROKEN, ClaimVerdict.NOT_SEEN
CLAIMS = (LABEL, OWN_ID, OWN_KEY, DELETE, "refusals-are-known")
DAY = timedelta(days=1)
PERMIT = Permit(7, START, 900)


def watched(
    before: Lease,
    after: Lease,
    now: datetime = START,
    *,
    end: str = OWN_KEY,
    known: ClaimFinding | None = None,
    remarks: tuple[Remark, ...] = (),
    is_shown: bool = True,
) -> dict[str, ClaimVerdict]:
    instance = an_instance(after) if is_shown and not after.is_over else None
    newest = {} if known is None else {known.claim: known}
    watcher = Watcher("vastai", "account", "1.4", CLAIMS, newest, now)
    found = watcher.watch("job-1", (Use(before, after, instance, end),), remarks)
    assert all((each.used_on, each.account, each.version) == ("vastai", "account", "1.4") for each in found)
    return {each.claim: each.verdict for each in found}


def lapsing(**changes: Any) -> Lease:
    held: dict[str, Any] = {"held_until": at(1380), "reason": Reason.PROVING, "permit": PERMIT, "acquired_at": at(-60)}
    return a_lease(**(held | changes))


def gone(lease: Lease, at_s: float, **changes: Any) -> Lease:
    ending = replace(lease.ending, gone_at=at(at_s))
    return replace(lease, state=LeaseState.GONE, ending=ending, **changes)


def test_the_claims_that_a_market_must_make_to_be_proved() -> None:
    assert find_end_claim(DeadMan.DESTROYS, CLAIMS) == OWN_KEY
    assert find_end_claim(DeadMan.NONE, CLAIMS) == find_end_claim(DeadMan.POWERS_OFF, CLAIMS) == DELETE
    assert find_end_claim(DeadMan.NONE, (LABEL, OWN_KEY)) is None
    assert find_end_claim(DeadMan.DESTROYS, (OWN_KEY,)) is None


def test_the_label_is_looked_at_when_the_machine_is_first_listed() -> None:
    new = a_lease(agent_boot=0)
    listed = a_lease(agent_boot=0, last_seen_at=at(15))
    assert watched(new, listed) == {LABEL: HELD}
    assert watched(listed, listed) == {}
    watcher = Watcher("vastai", "account", "1.4", CLAIMS, {}, START)
    unnamed = replace(an_instance(listed), label="")
    (found,) = watcher.watch("job-1", (Use(new, listed, unnamed, OWN_KEY),), ())
    assert (found.claim, found.verdict) == (LABEL, BROKEN)


def test_an_agent_that_speaks_found_its_own_orders() -> None:
    silent = a_lease(agent_boot=0, last_seen_at=at(15))
    assert watched(silent, a_lease(last_seen_at=at(15))) == {OWN_ID: HELD}


@pytest.mark.parametrize(
    ("before", "after", "now_s", "verdict"),
    [
        (lapsing(last_seen_at=at(930)), gone(lapsing(), 990), 990, HELD),
        (lapsing(last_seen_at=at(600)), gone(lapsing(), 990), 990, None),
        (lapsing(last_seen_at=at(600)), gone(lapsing(), 630), 630, None),
        (lapsing(last_seen_at=at(930)), gone(lapsing(ending=Ending(attempts=1)), 990), 990, None),
        (lapsing(last_seen_at=at(930)), gone(lapsing(), 990, reason=Reason.TAKEN_OVER), 990, None),
        (lapsing(), lapsing(last_seen_at=at(1259)), 1259, None),
        (lapsing(), lapsing(last_seen_at=at(1260)), 1260, BROKEN),
        (lapsing(), lapsing(last_seen_at=at(900)), 1380, None),
        (lapsing(reason=Reason.CHEAPEST), gone(lapsing(reason=Reason.VANISHED), 990), 990, None),
    ],
    ids=[
        *("it went in time", "lost before", "gone before its permit was over", "destroyed by us", "taken over"),
        *("there is time yet", "it is there too long", "no list says", "any other machine"),
    ],
)
def test_a_machine_whose_permit_lapses(before: Lease, after: Lease, now_s: int, verdict: ClaimVerdict | None) -> None:
    assert watched(before, after, at(now_s)).get(OWN_KEY) is verdict


@pytest.mark.parametrize(
    ("state", "seen_s", "verdict"),
    [
        (LeaseState.GONE, 359, HELD),
        (LeaseState.GONE, 360, None),
        (LeaseState.DESTROY_REQUESTED, 359, None),
        (LeaseState.DESTROY_REQUESTED, 360, BROKEN),
    ],
)
def test_where_machines_cannot_go_by_themselves_an_ordinary_destroy_is_looked_at(
    state: LeaseState, seen_s: int, verdict: ClaimVerdict | None
) -> None:
    ending = Ending(requested_at=START, sent_at=at(5), attempts=1)
    lease = a_lease(state=LeaseState.DESTROY_REQUESTED, ending=ending, last_seen_at=at(seen_s))
    assert watched(lease, replace(lease, state=state), at(seen_s), end=DELETE).get(DELETE) is verdict
    never_sent = replace(lease, ending=replace(ending, sent_at=None))
    assert DELETE not in watched(never_sent, never_sent, at(seen_s), end=DELETE)


def test_what_the_market_says_beside_the_work_breaks_a_claim() -> None:
    said = Remark(RemarkKind.UNKNOWN_WORDS, START, "never seen")
    lease = a_lease()
    assert watched(lease, lease, remarks=(said,)) == {"refusals-are-known": BROKEN}


def test_only_news_is_written_down_and_use_mends_nothing() -> None:
    new, listed = a_lease(agent_boot=0), a_lease(agent_boot=0, last_seen_at=at(15))
    known = ClaimFinding("job-0", LABEL, HELD, START, (), None, "vastai", "account", "1.4")
    assert watched(new, listed, START + DAY - timedelta(seconds=1), known=known) == {}
    assert watched(new, listed, START + DAY, known=known) == {LABEL: HELD}
    assert watched(new, listed, known=replace(known, version="1.3")) == {LABEL: HELD}
    assert watched(new, listed, known=replace(known, used_on="")) == {LABEL: HELD}
    broken = replace(known, verdict=BROKEN)
    assert watched(new, listed, START + DAY, known=broken) == {}
    assert watched(new, listed, START + DAY, known=replace(broken, accepted_at=START)) == {}


def shown(claim: str, verdict: ClaimVerdict = HELD, **changes: Any) -> ClaimFinding:
    return replace(ClaimFinding("job-1", claim, verdict, START, (), None, "vastai", "account", "1.4"), **changes)


def judged(*findings: ClaimFinding, now: datetime = START, end: str | None = OWN_KEY) -> UseProof:
    return judge_use(findings, end, "account", "1.4", now)


def test_a_market_is_proved_once_a_machine_was_found_by_its_label_and_has_gone() -> None:
    assert judged() == judged(shown(LABEL)) == judged(shown(OWN_KEY)) == UseProof(is_due=True)
    made = judged(shown(LABEL), shown(OWN_KEY, at=at(3600)))
    assert made == UseProof(START + 30 * DAY)
    assert made.is_made


def test_it_is_due_again_a_week_before_its_end_and_over_then() -> None:
    both = shown(LABEL), shown(OWN_KEY)
    assert not judged(*both, now=START + 23 * DAY - timedelta(seconds=1)).is_due
    assert judged(*both, now=START + 23 * DAY) == UseProof(START + 30 * DAY, is_due=True)
    assert judged(*both, now=START + 30 * DAY) == UseProof(is_due=True)


@pytest.mark.parametrize("changes", [{"account": "other"}, {"version": "1.5"}, {"used_on": ""}])
def test_it_holds_for_one_account_and_one_version_and_by_use(changes: dict[str, Any]) -> None:
    assert judged(shown(LABEL), shown(OWN_KEY, **changes)) == UseProof(is_due=True)


def test_a_broken_claim_proves_nothing_and_is_not_tried_again() -> None:
    assert judged(shown(LABEL), shown(OWN_KEY), shown(OWN_KEY, BROKEN, accepted_at=START)) == UseProof()
    assert judged(shown(LABEL), shown(OWN_KEY, NOT_SEEN)) == UseProof(is_due=True)
    assert judged(shown(LABEL), end=None) == UseProof()
