"""Planted bugs of machines, lists, money, permits and work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from autopilot.agent.shipped.machine import Machine
from autopilot.domain import events as e
from autopilot.domain import evolve as evolution
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import JobStatus
from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import Lease, Role
from autopilot.domain.ledger import LeaseBooks
from autopilot.domain.money import ZERO
from autopilot.domain.reasons import Reason
from autopilot.engine import (
    accrue,
    actions,
    calls,
    checkpoint_retention,
    engine,
    invoices,
    mailbox,
    maintenance,
    orphans,
    purses,
    reconcile,
)
from autopilot.mailbox import checkpoints
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.policy import budget, guard
from autopilot.policy.purse import MarketPurse, Purse
from autopilot.ports.provider import Done, MarketUnknown, Refused, Unknown
from autopilot.providers import pacing, values
from autopilot.providers.runpod.adapter import RunpodProvider
from autopilot.providers.vastai import listing, outcomes
from autopilot.providers.vastai.adapter import VastaiProvider
from autopilot_lab.memory_store.tables import MemoryTables
from tests.leases import change_lease
from tests.simulation.product.daemon import SENTINEL_KEY, OrdersBootstrap
from tests.simulation.runs.bug import Patches, bug


async def _yes(*_: Any, **__: Any) -> bool:
    return True


# --- creates


@bug("creates are sent before their intent is committed")
def _intent_not_committed() -> Patches:
    decide = engine.Engine._decide

    async def hasty(self: Any, *given: Any) -> Any:
        *_, outbox, _ = given
        after = await decide(self, *given)
        for spec, lease in outbox.creates:
            self.calls.create(spec, lease)
        outbox.creates.clear()
        return after

    return [(engine.Engine, "_decide", hasty), (calls.Calls, "_is_still_wanted", _yes)]


@bug("what a create can have cost while no list was read is not held back")
def _lost_create_costs_nothing() -> Patches:
    return [(Lease, "may_be_billed", property(lambda _: False))]


@bug("a create whose outcome is not known is sent again")
def _create_retried() -> Patches:
    create = VastaiProvider.create

    async def again(self: Any, request: Any) -> Any:
        outcome = await create(self, request)
        return await create(self, request) if isinstance(outcome, Unknown) else outcome

    return [(VastaiProvider, "create", again)]


@bug("an id in a refused create is ignored")
def _new_contract_ignored() -> Patches:
    created = outcomes.judge_create

    def blind(answer: Any, *, is_bid: bool) -> Any:
        outcome = created(answer, is_bid=is_bid)
        return replace(outcome, instance_id=None) if isinstance(outcome, Refused) else outcome

    return [(outcomes, "judge_create", blind)]


@bug("an unknown create is given up after the first list without it")
def _no_settle_window() -> Patches:
    return [(reconcile, "SETTLE", timedelta(0)), (reconcile, "LISTS_TO_ABANDON", 1)]


@bug("an intent whose machine never appeared is kept for ever")
def _intent_kept_for_ever() -> Patches:
    return [(reconcile, "LISTS_TO_ABANDON", 10**9)]


@bug("an instance is not looked up by its label")
def _no_adoption() -> Patches:
    def never_found(lease: Any, reading: Any, now: Any) -> Iterator[Any]:
        yield e.LeaseMissed(lease.id, now)
        if reading.begun_at - lease.intended_at >= reconcile.SETTLE:
            yield e.LeaseAbandoned(lease.id, Reason.NEVER_APPEARED, now)

    return [(reconcile, "_resolve_intent", never_found)]


@bug("what was rented otherwise than asked for is kept")
def _wrong_terms_kept() -> Patches:
    from autopilot.providers.runpod import adapter as runpod_adapter
    from autopilot.providers.vastai import create as vastai_create

    return [
        (reconcile, "_is_as_ordered", lambda lease, instance: True),
        (vastai_create, "difference", lambda *_: None),
        (runpod_adapter, "difference", lambda *_: None),
    ]


@bug("nothing limits how often a job rents")
def _launch_storm() -> Patches:
    class Never(calls.Avoid):
        def machines(self, job_id: str, now: Any) -> frozenset[tuple[str, str]]:
            return frozenset()

    refusal = guard._acquire_refusal

    def unlimited(job: Any, action: Any, reserve: Any, market: Any, exposure: Any, limits: Any, params: Any) -> Any:
        calm = replace(exposure, launches_job_10min=LaunchCount(), launches_hour=LaunchCount())
        return refusal(job, action, reserve, market, calm, limits, params)

    return [(engine, "Avoid", Never), (guard, "_acquire_refusal", unlimited)]


# --- lists


@bug("absent from one list is gone")
def _absent_once_is_gone() -> Patches:
    def at_once(lease: Any, reading: Any) -> Iterator[Any]:
        yield e.LeaseAbsent(lease.id, reading.begun_at)
        yield e.LeaseGone(lease.id, reading.begun_at)

    return [
        (reconcile, "_absence", at_once),
        (VastaiProvider, "_confirm_lost", _yes),
        (RunpodProvider, "_confirm_lost", _yes),
    ]


@bug("a list that cannot be read is an empty list")
def _unreadable_is_empty() -> Patches:
    def empty(provider: Any) -> Any:
        listed = provider.instances

        async def instances(self: Any) -> Any:
            try:
                return await listed(self)
            except MarketUnknown:
                return ()

        return instances

    return [(VastaiProvider, "instances", empty(VastaiProvider)), (RunpodProvider, "instances", empty(RunpodProvider))]


@bug("a page that is cut short counts as the whole list")
def _short_list_believed() -> Patches:
    async def first_page(client: Any, family: Any, path: str, query: Mapping[str, Any], rows: str, total: str) -> Any:
        page = await client.read(family, path, query=dict(query))
        return page.get(rows) or []

    return [(listing, "_all_pages", first_page)]


@bug("a host that does not answer counts as an instance that is gone")
def _offline_is_gone() -> Patches:
    events = reconcile.lease_events

    def hasty(lease: Any, reading: Any, busy: Any, now: Any) -> Iterator[Any]:
        found = next((i for i in reading.instances or () if i.instance_id == lease.instance_id), None)
        lost = found is not None and found.status is InstanceStatus.OFFLINE and not lease.is_over
        if lost and lease.instance_id is not None and lease.id not in busy:
            yield e.LeaseGone(lease.id, now)
            return
        yield from events(lease, reading, busy, now)

    return [(engine, "lease_events", hasty)]


@bug("a field of another type than expected is not reckoned with")
def _hostile_field() -> Patches:
    return [(values, "text", lambda value: " ".join(value.split()) if value else "")]


# --- destroys and sweep


@bug("a destroy that was answered with a yes is believed")
def _destroy_believed() -> Patches:
    async def believed(self: Any, lease: Any) -> None:
        outcome = await self._providers[lease.provider].destroy(lease.instance_id)
        now = self._clock.now()
        sent = e.DestroySent(lease.id, isinstance(outcome, Done), now)
        await self._record(lease, sent, *([e.LeaseGone(lease.id, now)] if isinstance(outcome, Done) else []))

    return [(calls.Calls, "_destroy", believed)]


@bug("a destroy is given up after two tries")
def _destroy_gives_up() -> Patches:
    destroy = calls.Calls.destroy

    def twice(self: Any, lease: Any) -> None:
        if lease.ending.attempts < 2:
            destroy(self, lease)

    return [(calls.Calls, "destroy", twice)]


@bug("instances that no lease holds are not looked for")
def _no_sweep() -> Patches:
    async def nothing(self: Any, *_: Any) -> list[Any]:
        return []

    return [(orphans.Orphans, "_sweep", nothing)]


@bug("the sweep takes what is not ours")
def _sweep_takes_all() -> Patches:
    return [(orphans, "is_ours", lambda label, install_id: True)]


@bug("a second instance of one create is taken for the first")
def _duplicate_overlooked() -> Patches:
    def by_label(ours: Any, named: Any) -> Iterator[Any]:
        for instance, holder in find_unaccounted(ours, named):
            if not any(not lease.is_over for lease in named.get(instance.label, ())):
                yield instance, holder

    find_unaccounted = reconcile.find_unaccounted
    return [(orphans, "find_unaccounted", by_label)]


@bug("requests to a market are not spaced")
def _no_pacing() -> Patches:
    return [(pacing.Lane, "hold", lambda self, seconds: None)]


@bug("a cancelled job never gets to its end")
def _cancel_never_ends() -> Patches:
    restate = evolution._restate

    def stuck(job: Any, event: Any) -> Any:
        return job if job.status is JobStatus.CANCELLING else restate(job, event)

    return [(evolution, "_restate", stuck)]


@bug("a machine that never gets ready for the command is kept")
def _unready_is_kept() -> Patches:
    from autopilot.policy import decide, migration

    never = lambda *_: False  # noqa: E731
    return [(decide, "prepares_too_long", never), (migration, "prepares_too_long", never)]


# --- money


@bug("money passes through a float")
def _float_money() -> Patches:
    entry = accrue.entry

    def floating(type_: Any, lease: Any, kind: Any, day: Any, amount: Any, now: Any, *, mark: str) -> Any:
        return entry(type_, lease, kind, day, Decimal(float(amount)), now, mark=mark)

    return [(accrue, "entry", floating)]


@bug("rows of the ledger are written over")
def _ledger_written_over() -> Patches:
    entry = accrue.entry

    def same_name(type_: Any, lease: Any, kind: Any, day: Any, amount: Any, now: Any, *, mark: str) -> Any:
        return entry(type_, lease, kind, day, amount, now, mark="")

    def written_over(self: Any, row: Any) -> bool:
        self.entries.put(row.id, row)
        self.books.put(row.lease_id, (self.books.get(row.lease_id) or LeaseBooks()).with_entry(row))
        return True

    return [(accrue, "entry", same_name), (MemoryTables, "add_entry", written_over)]


@bug("what stopping a machine will cost is not set aside")
def _no_stop_cost() -> Patches:
    nothing = lambda *_: ZERO  # noqa: E731
    return [(budget, "commitment", nothing), (budget, "stop_cost", nothing)]


@bug("a budget is looked at when a machine is rented and never again")
def _budget_at_launch_only() -> Patches:
    from autopilot.policy import decide

    left = budget.left

    def blind(job: Any, params: Any) -> Any:
        return None if job.main is not None else left(job, params)

    class Budget:
        def __getattr__(self, name: str) -> Any:
            return blind if name == "left" else getattr(budget, name)

    return [(decide, "budget", Budget())]


@bug("the allowance of a token counts what is posted and nothing else")
def _allowance_of_posted_alone() -> Patches:
    read = purses.read_purses

    class Posted(Purse):
        def left_for(self, job: Any, leases: Any, params: Any) -> Any:
            return None if self.allowance is None else self.allowance - self.spent

    async def posted_alone(uow: Any, jobs: Any, unposted: Any, now: Any, *rest: Any) -> dict[str, tuple[Purse, ...]]:
        sums = {
            token.owner: (await uow.ledger.sum_owners([token.owner], token.counts_from(now))).posted
            for token in await uow.tokens.list_all()
        }
        jobs = list(jobs)
        owners = {job.id: job.owner for job in jobs}
        return {
            job_id: tuple(
                Posted(purse.allowance, sums[owners[job_id]], purse.job_ids, purse.has_ended)
                if purse.reason is Reason.OVER_ALLOWANCE
                else purse
                for purse in of_job
            )
            for job_id, of_job in (await read(uow, jobs, unposted, now, *rest)).items()
        }

    return [(engine, "read_purses", posted_alone)]


@bug("the allowance for a market without a certificate counts what is posted and nothing else")
def _uncertified_of_posted_alone() -> Patches:
    read = purses.read_market_purses

    class Posted(MarketPurse):
        def left(self, leases: Any, params: Any) -> Any:
            return None if self.allowance is None else self.allowance - self.spent

    async def posted_alone(uow: Any, *given: Any) -> dict[str, Posted]:
        found = await read(uow, *given)
        posted = {market: (await uow.ledger.sum_market(market, None)).posted for market in found}
        return {market: Posted(each.allowance, posted[market], market) for market, each in found.items()}

    return [(engine, "read_market_purses", posted_alone)]


@bug("without a certificate jobs have as many machines on a market as they like")
def _uncertified_without_count() -> Patches:
    return [(MarketPurse, "has_machine", lambda *_, **__: False)]


@bug("the bill is added to what was accrued instead of taking its place")
def _bill_counts_twice() -> Patches:
    correction = invoices._Book.correction

    def added(self: Any, lease: Any, line: Any, is_settling: bool, now: Any) -> Any:
        self._posted[line.kind, line.day] = ZERO
        return correction(self, lease, line, is_settling, now)

    return [(invoices._Book, "correction", added)]


@bug("what an instance cost after its destroy was ignored is not posted")
def _ignored_destroy_is_free() -> Patches:
    return [(invoices, "import_invoice", _yes), (maintenance.Maintenance, "reconcile", _yes)]


@bug("an instance that only the bill tells of is left out of the ledger")
def _unknown_on_bill_ignored() -> Patches:
    return [(maintenance.Maintenance, "_take_in_unknown", _yes)]


# --- permits


@bug("the agent does not mind when its permit runs out")
def _permit_ignored() -> Patches:
    decide = Machine.decide

    def heedless(self: Any, now: float) -> Any:
        self.permit_until = now + 900
        return decide(self, now)

    return [(Machine, "decide", heedless)]


@bug("a machine that wakes gets a fresh permit")
def _permit_restarts() -> Patches:
    return [(Machine, "_left_of_permit", lambda self, memory, now: float(memory["permit_ttl_s"]))]


@bug("a permit is renewed by any orders, new or old")
def _old_orders_renew() -> Patches:
    received = Machine.take_orders

    def renewed(self: Any, orders: dict[str, Any], now: float) -> bool:
        self.permit_until = now + orders["permit_ttl_s"]
        return received(self, orders, now)

    from tests.simulation.product.agents import SimAgent

    fetch = SimAgent._fetch_orders

    def fetch_again(self: Any) -> None:
        self._read = None
        fetch(self)

    return [(Machine, "take_orders", renewed), (SimAgent, "_fetch_orders", fetch_again)]


@bug("both machines of one create go by its orders")
def _duplicates_both_obey() -> Patches:
    return [(Machine, "is_surplus", lambda self: False)]


# --- work


@bug("a checkpoint counts before anybody has looked at its parts")
def _unverified_latest() -> Patches:
    return [(checkpoints, "_is_whole", _yes)]


@bug("the newest checkpoints are deleted instead of the oldest")
def _newest_deleted() -> Patches:
    async def delete(self: Any, job_id: str, keep: int) -> None:
        async with self._store.snapshot() as uow:
            known = await uow.checkpoints.list_by_job(job_id)
        doomed = known[: max(len(known) - keep, 0)]
        await self._blobs.delete([f"jobs/{job_id}/{c.lease_id}/ckpt/{c.number}/part-0" for c in doomed])

    return [(checkpoint_retention.CheckpointRetention, "_delete_surplus_of", delete)]


@bug("a run starts over although there is a checkpoint")
def _restore_forgotten() -> Patches:
    async def none(self: Any, job: Any) -> None:
        return None

    return [(mailbox.Mailbox, "_restorable", none)]


@bug("a new machine runs the command before the old one has stopped")
def _next_runs_too() -> Patches:
    intended = actions.intended_lease

    def at_once(*arguments: Any) -> Any:
        return change_lease(intended(*arguments), role=Role.RUN)

    return [(engine, "intended_lease", at_once)]


@bug("another attempt on a machine keeps the run epoch of the one before")
def _epoch_reused() -> Patches:
    run_again = evolution._run_again

    def reused(job: Any, lease: Any, at: Any) -> Any:
        again = run_again(job, lease, at)
        leases = (change_lease(held, run_epoch=job.run_epoch) if held.id == lease.id else held for held in again.leases)
        return replace(again, run_epoch=job.run_epoch, leases=tuple(leases))

    return [(evolution, "_run_again", reused)]


@bug("the account's key goes to the machine")
def _key_on_the_machine() -> Patches:
    onstart = OrdersBootstrap.onstart

    def with_key(self: Any, job_id: str, lease_id: str) -> str:
        return f"{onstart(self, job_id, lease_id)} {SENTINEL_KEY}"

    return [(OrdersBootstrap, "onstart", with_key)]


@bug("any exit code of any run ends the job as a success")
def _any_exit_is_success() -> Patches:
    def claimed(data: bytes) -> Any:
        found = parse(data)
        if found is None or found.exit is None:
            return found
        return replace(found, exit=replace(found.exit, exit_code=0))

    parse = parse_heartbeat
    return [(mailbox, "parse_heartbeat", claimed)]
