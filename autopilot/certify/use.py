"""What the use of a market by an ordinary job shows of its claims: beside the work, and at the end of its machine.

A certification asks; this only looks. What was found broken, by use or by a certification, is not taken back by use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from autopilot.certify.give_back import GONE_WITHIN
from autopilot.certify.watched import WATCHED
from autopilot.domain.certificate import DELETE, LABEL, OWN_ID, OWN_KEY, ClaimFinding, ClaimVerdict
from autopilot.domain.instance import Instance
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.money import Number
from autopilot.domain.offer import DeadMan
from autopilot.domain.reasons import Reason
from autopilot.domain.remark import Remark
from autopilot.policy.proof import is_still_there

SHOWN_AGAIN_AFTER = timedelta(days=1)
"""A claim that holds is not written down for each job again."""
SEEN_TO_ITS_END = timedelta(minutes=3)
"""A machine that the lists had lost before this, from the end of its permit, may have been lost with its host."""


def find_end_claim(dead_man: DeadMan, claims: Collection[str]) -> str | None:
    """The claim by which a machine of the market is gone at its end; None: with none the market is not proved by use.

    ``claims``: ids of those that are made of it.
    """
    end = OWN_KEY if dead_man is DeadMan.DESTROYS else DELETE
    return end if {LABEL, end} <= set(claims) else None


@dataclass(frozen=True, slots=True)
class Use:
    """One machine of an ordinary job over one tick."""

    before: Lease
    """As the tick met it."""
    lease: Lease
    """As it is after what the market shows was taken in."""
    instance: Instance | None
    """As a list of this tick shows it, if there was one."""
    end: str | None
    """As of ``find_end_claim``."""


Find = Callable[..., ClaimFinding]


@dataclass(frozen=True, slots=True)
class Watcher:
    """What one market's claims are known to be, and under what name a finding is written down."""

    market: str
    account: str
    version: str
    claims: Collection[str]
    newest: Mapping[str, ClaimFinding]
    """By claim, of certifications and of use; not those that were not seen."""
    now: datetime

    def watch(self, job_id: str, uses: Iterable[Use], remarks: Sequence[Remark]) -> tuple[ClaimFinding, ...]:
        """What is news. ``uses``: of the job's machines on this market; ``remarks``: of it since the first of them."""

        def find(claim: str, *numbers: tuple[str, Number], holds: bool) -> ClaimFinding:
            verdict = ClaimVerdict.HELD if holds else ClaimVerdict.BROKEN
            seen_by = self.account, self.version
            return ClaimFinding(job_id, claim, verdict, self.now, numbers, None, self.market, *seen_by)

        shown = [finding for use in uses for finding in _look(use, find, self.now)]
        shown += [
            find(claim, ("at", said.at.isoformat()), ("words", said.words), holds=False)
            for claim, kind in WATCHED.items()
            if (said := next((each for each in remarks if each.kind is kind), None)) is not None
        ]
        # Of two machines the one that breaks a claim counts.
        shown.sort(key=lambda each: each.verdict is ClaimVerdict.BROKEN)
        news = {each.claim: each for each in shown if each.claim in self.claims and self._is_news(each)}
        return tuple(news.values())

    def _is_news(self, finding: ClaimFinding) -> bool:
        known = self.newest.get(finding.claim)
        if known is None or known.verdict is ClaimVerdict.BROKEN:
            return known is None
        is_same = (known.account, known.version) == (finding.account, finding.version) and bool(known.used_on)
        return finding.verdict is ClaimVerdict.BROKEN or not is_same or finding.at - known.at >= SHOWN_AGAIN_AFTER


def _look(use: Use, find: Find, now: datetime) -> Iterator[ClaimFinding]:
    lease, instance = use.lease, use.instance
    if instance is not None and lease.was_listed and not use.before.was_listed:
        is_shown = instance.label == lease.label
        yield find(LABEL, ("label_shown", int(is_shown)), holds=is_shown)
    if lease.agent.boot > 0 and use.before.agent.boot == 0:
        yield find(OWN_ID, holds=True)
    if use.end == OWN_KEY:
        yield from _look_at_lapse(use, find, now)
    elif use.end == DELETE:
        yield from _look_at_destroy(use, find, now)


def _look_at_lapse(use: Use, find: Find, now: datetime) -> Iterator[ClaimFinding]:
    """Held: it was there until its permit was over, was not asked to go, and has gone in time. Broken: the market shows
    it still."""
    before, lease, ends_at = use.before, use.lease, use.before.permit_ends_at
    if not before.is_proving or ends_at is None:
        return
    seconds = ("seconds", round((now - ends_at).total_seconds()))
    if lease.state is LeaseState.GONE:
        was_there = before.shown_at >= ends_at - SEEN_TO_ITS_END
        if was_there and now >= ends_at and not lease.ending.attempts and lease.reason is Reason.PROVING:
            yield find(OWN_KEY, seconds, holds=True)
    elif is_still_there(replace(before, observed=lease.observed)):
        yield find(OWN_KEY, ("still_there_s", seconds[1]), holds=False)


def _look_at_destroy(use: Use, find: Find, now: datetime) -> Iterator[ClaimFinding]:
    """Held: it ran, was destroyed by request, and has gone in time. Broken: the market has taken the destroy more than
    once, and shows it still. One that goes late shows neither: the market may have refused its destroys."""
    lease = use.lease
    if lease.ending.requested_at is None or lease.ending.sent_at is None or not lease.has_run:
        return
    waited = now - lease.ending.requested_at
    seconds = ("seconds", round(waited.total_seconds()))
    if lease.state is LeaseState.GONE:
        if waited < GONE_WITHIN and lease.reason is not Reason.TAKEN_OVER:
            yield find(DELETE, seconds, holds=True)
    elif waited >= GONE_WITHIN and use.before.outlives_destroy and lease.outlives_destroy:
        yield find(DELETE, seconds, holds=False)
