"""Reading one market, once a tick: what is rented, what the account holds, and which absences are confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache

import structlog

from autopilot.domain.instance import Instance, InstanceStatus, TopUp
from autopilot.domain.labels import LABEL_PREFIX
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.offer import DeadMan, Offer, OfferQuery
from autopilot.domain.same import Same
from autopilot.engine.past_bids import PastBids
from autopilot.engine.start_logs import StartLogs
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, Provider, RefusalCode

log = structlog.get_logger(__name__)

CREDIT_MAX_AGE = timedelta(seconds=60)
READ_WAIT_REAL_S = 120.0
"""A market that takes longer to read is unknown, even if its adapter still waits: the others must not be blocked."""
OFFERS_WAIT_REAL_S = 20.0
"""A search that takes longer is given up for this tick: permits must not wait for it."""
JOINED = 16
"""Lists of offers of several markets that are kept: one for each search of a tick."""
VISIBLE_AFTER = timedelta(seconds=60)
"""Lists may lag so far behind: until then they do not prove that a new instance is missing or an old one alive."""


@dataclass(frozen=True, slots=True)
class Reading:
    """``instances`` None: the market is UNKNOWN, with ``reason`` in its own words. ``begun_at``: before the call."""

    provider: str
    begun_at: datetime
    instances: tuple[Instance, ...] | None
    reason: str = ""
    is_fresh: bool = True
    """False: repeated from an earlier tick, because the market is not to be polled more often."""
    credit: Decimal | None = None
    account: str = ""
    """The digest of the account that answered; empty: it is not known."""
    is_other_account: bool = False
    """Not the one on record: that it shows no machine is no proof that there is none."""
    absent: frozenset[str] = field(default=frozenset())
    """Instance ids that the list does not show although it should."""
    confirmed_gone: frozenset[str] = field(default=frozenset())
    """Those of them for which a single read said plainly that there is none, or that it is somebody else's."""
    start_words: Mapping[str, str] = field(default_factory=dict)
    """By lease, what the market's logs say of machines whose agent was not heard yet."""
    taken_over: frozenset[str] = field(default=frozenset())
    """Those of them that both the list and a single read show under a name that their user gave."""

    @property
    def known(self) -> bool:
        return self.instances is not None

    @property
    def out_of_credit(self) -> bool:
        return self.credit is not None and self.credit <= 0


@dataclass(frozen=True, slots=True)
class _Alone:
    """What a single read said; None: there is no such instance."""

    instance: Instance | None


class Watch:
    """One market under watch. Keeps nothing that matters: credit and offers are caches."""

    def __init__(self, provider: Provider, clock: Clock, poll_interval: timedelta = timedelta(0)) -> None:
        self.provider = provider
        self._poll_interval = poll_interval
        self.last = Reading(provider.name, clock.now(), None, "not read yet")
        self._clock = clock
        self._credit_at: datetime | None = None
        self._credit: Decimal | None = None
        self.account_digest = ""
        """Digest of the account's id; empty until it was read, and if the market does not state it."""
        self._past_bids = PastBids()
        self._start_logs = StartLogs()
        self.top_up = TopUp()
        """What the account answered of a card that pays in by itself."""
        self.known_at: datetime | None = None
        """When the market was last read in full."""
        self.no_rights = False
        """The market refused our key at the last read: only the user can mend that."""
        self.search_problem = ""
        """Why the newest search for offers brought none; empty when it had an answer."""

    async def read(self, leases: Sequence[Lease]) -> Reading:
        begun_at = self._clock.now()
        if self.last.known and begun_at - self.last.begun_at < self._poll_interval:
            return replace(self.last, is_fresh=False)
        try:
            async with asyncio.timeout(READ_WAIT_REAL_S):
                instances = await self.provider.instances()
                at_once = _any_newly_stopped(leases, instances) or self._is_any_create_open(leases)
                await self._refresh_credit(begun_at, at_once=at_once)
        except TimeoutError:
            return self._make_unknown(begun_at, f"no answer within {READ_WAIT_REAL_S:g} s")
        except MarketUnknown as problem:
            self.no_rights = problem.code is RefusalCode.NO_RIGHTS
            return self._make_unknown(begun_at, str(problem))
        except Exception as problem:
            # A defect in one adapter must not stop the others' ticks.
            log.exception("market.reading_failed", provider=self.provider.name)
            return self._make_unknown(begun_at, repr(problem))
        self.no_rights = False
        self.known_at = begun_at
        if not self.last.known:
            log.info("market.became_known", provider=self.provider.name, instances=len(instances))
        shown = {instance.instance_id: instance for instance in instances}
        missing = [
            lease
            for lease in leases
            if lease.provider == self.provider.name
            and lease.instance_id is not None
            and not ((instance := shown.get(lease.instance_id)) and lease.is_of(instance))
            and not lease.is_over
            and lease.acquired_at is not None
            and begun_at - lease.acquired_at >= VISIBLE_AFTER * (lease.state is not LeaseState.DESTROY_SENT)
        ]
        doubted = [lease for lease in missing if lease.observed.absences >= 1 or lease.instance_id in shown]
        alone = await asyncio.gather(*(self._read_alone(lease) for lease in doubted))
        not_ours = [
            (lease.instance_id, _is_the_users(shown.get(lease.instance_id), read.instance))
            for lease, read in zip(doubted, alone, strict=True)
            if lease.instance_id and read is not None and not (read.instance and lease.is_of(read.instance))
        ]
        self.last = Reading(
            self.provider.name,
            begun_at,
            instances,
            credit=self._credit,
            account=self.account_digest,
            absent=frozenset(lease.instance_id for lease in missing if lease.instance_id),
            confirmed_gone=frozenset(instance_id for instance_id, _ in not_ours),
            taken_over=frozenset(instance_id for instance_id, is_the_users in not_ours if is_the_users),
            start_words=await self._start_logs.read(self.provider, leases, instances, begun_at),
        )
        return self.last

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """Empty when the market cannot be searched now; the reason is logged, and kept in ``search_problem``."""
        try:
            async with asyncio.timeout(OFFERS_WAIT_REAL_S):
                found = await self.provider.offers(query)
        except (MarketUnknown, TimeoutError) as problem:
            self.search_problem = str(problem) or "no answer in time"
            log.warning("offers.unavailable", provider=self.provider.name, reason=self.search_problem)
            return ()
        except Exception as problem:
            self.search_problem = repr(problem)
            log.exception("offers.failed", provider=self.provider.name)
            return ()
        self.search_problem = ""
        found = self._past_bids.remove(found, self._clock.now())
        dead_man = self.provider.capabilities.dead_man
        return found if dead_man is DeadMan.DESTROYS else tuple(replace(each, dead_man=dead_man) for each in found)

    def recall_bids(self, leases: Iterable[Lease]) -> None:
        """As the daemon begins: those that the ledger knows, of all markets. A pool's floor is no machine's."""
        if not self.provider.capabilities.is_pooled:
            ours = (lease for lease in leases if lease.provider == self.provider.name)
            self._past_bids.recall(ours, self._clock.now())

    async def gpu_names(self) -> tuple[str, ...] | None:
        """All kinds of GPU that the market lists; None when it cannot be asked now."""
        try:
            async with asyncio.timeout(OFFERS_WAIT_REAL_S):
                return await self.provider.gpu_names()
        except (MarketUnknown, TimeoutError) as problem:
            log.warning(
                "gpu_names.unavailable", provider=self.provider.name, reason=str(problem) or "no answer in time"
            )
            return None

    def _make_unknown(self, begun_at: datetime, reason: str) -> Reading:
        if self.last.known or self.last.reason != reason:
            log.warning("market.became_unknown", provider=self.provider.name, reason=reason)
        self.last = Reading(self.provider.name, begun_at, None, reason, credit=self._credit)
        return self.last

    async def _refresh_credit(self, now: datetime, *, at_once: bool) -> None:
        """``at_once``: a machine has just stopped, and only the credit of this moment tells an outbid from an empty
        account. Or the outcome of a create is not known, and only the account's own list may tell it."""
        is_due = self._credit_at is None or now - self._credit_at >= CREDIT_MAX_AGE
        if at_once or is_due or not self.account_digest:  # until it is known, an empty list proves nothing
            account = await self.provider.account()
            self._credit, self.top_up = account.credit, account.top_up
            self.account_digest = account.digest or self.account_digest
            self._credit_at = now

    def _is_any_create_open(self, leases: Iterable[Lease]) -> bool:
        own = (lease for lease in leases if lease.provider == self.provider.name)
        return any(lease.state is LeaseState.INTENT and lease.create_unknown for lease in own)

    async def _read_alone(self, lease: Lease) -> _Alone | None:
        """None when the market does not say."""
        assert lease.instance_id is not None, "only rented leases can be missing"
        try:
            async with asyncio.timeout(READ_WAIT_REAL_S):
                return _Alone(await self.provider.instance(lease.instance_id))
        except (MarketUnknown, TimeoutError):
            return None


def _is_the_users(*views: Instance | None) -> bool:
    """Whether each shows a name that its user gave. One that an autopilot gives may be the market's error: nothing is
    left to a user for that."""
    return all(each is not None and not each.label.startswith(LABEL_PREFIX) for each in views)


def _any_newly_stopped(leases: Iterable[Lease], instances: Iterable[Instance]) -> bool:
    stopped = {instance.instance_id for instance in instances if instance.status is InstanceStatus.STOPPED}
    return any(lease.state is LeaseState.ACTIVE and lease.instance_id in stopped for lease in leases)


def join_offers(of_markets: Iterable[tuple[Offer, ...]]) -> tuple[Offer, ...]:
    """All of them. The same lists make the same tuple: what is reckoned of offers is kept for as long as it lasts."""
    some = [offers for offers in of_markets if offers]
    return some[0] if len(some) == 1 else _join(tuple(map(Same, some)))


@lru_cache(JOINED)
def _join(of_markets: tuple[Same[tuple[Offer, ...]], ...]) -> tuple[Offer, ...]:
    return tuple(offer for each in of_markets for offer in each.value)
