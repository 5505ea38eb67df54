"""The daemon's side of the mailbox: what agents claim, checked, and the orders that answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import inf
from types import MappingProxyType
from typing import Any

import structlog

from autopilot.domain import events as e
from autopilot.domain.agent_state import AT_WORK, AgentState
from autopilot.domain.errors import UserError
from autopilot.domain.inputs import fetched_inputs, left_inputs
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.lease import Lease, Role
from autopilot.domain.money import BYTES_PER_GB
from autopilot.domain.named_hosts import find_hosts
from autopilot.domain.reasons import Reason
from autopilot.engine.checkpoint_retention import FEWEST_KEPT, Doubt
from autopilot.engine.claims import Claims, within_budget
from autopilot.engine.execs import Execs
from autopilot.engine.hosts import Hosts
from autopilot.engine.log_intake import LogIntake
from autopilot.mailbox.checkpoints import (
    contents,
    keep_verified,
    kept_manifest,
    kept_outputs,
    verified_manifest,
    verified_outputs,
)
from autopilot.mailbox.keys import (
    arrival_key,
    exit_key,
    heartbeat_key,
    lease_prefix,
    manifest_key,
    orders_key,
    registry_login_key,
    verified_key,
)
from autopilot.mailbox.order_shapes import Orders, Work
from autopilot.mailbox.orders import (
    CHECKPOINTS_AHEAD,
    LOGS_APART,
    CheckpointRef,
    CheckWish,
    LeftRef,
    build_orders,
    taken_over_orders,
)
from autopilot.mailbox.reading import parse_exit, parse_heartbeat
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, HostReport, Manifest, SshLogin, TakeAway
from autopilot.mailbox.wire import EXIT_HERE, NEXT_TASK, RUN_AGAIN
from autopilot.policy.checkpointing import checkpoint_interval
from autopilot.ports.blobs import BlobStore, BlobUnavailable, Grant
from autopilot.ports.unpacking import Unpacker

log = structlog.get_logger(__name__)

SEARCH_WAIT_REAL_S = 1.0
"""How long a tick waits for the verification of a new checkpoint."""
DISK_MARGIN = 2
"""Disks are sold in GB and measured in GiB, and an index comes on top."""
MOST_REJECTED = 10
"""Checkpoints of one machine that were not whole: no more of it are read then."""
SEQS_AT_ONCE = 1_000_000
"""A claim to have seen orders so far beyond the newest is not believed: they are two years of permits."""
BOOTS_AT_ONCE = 100
"""A claim of more restarts than this since the last heartbeat is not believed."""


CHECK_MOST_S, CHECK_SHARE = 60, 0.01
"""The check on arrival takes no longer, and no larger share of the time that the machine is expected to stay."""


_WHILE_OPEN = (orders_key, registry_login_key, arrival_key)
"""What goes with the end of a lease: secrets, and what only measured the store."""
NO_NOTICE = TakeAway("", "")
NO_LEASES: Mapping[str, Sequence[Lease]] = MappingProxyType({})

Probe = tuple[int | None, int | None]
"""When a look for checkpoints began: the newest that was claimed, and the run epoch whose exit was there."""


@dataclass(frozen=True, slots=True)
class Mail:
    """What one agent's mailbox held at a tick; ``checkpoint`` has been verified byte for byte."""

    heartbeat: Heartbeat | None = None
    exit: ExitRecord | None = None
    checkpoint: Checkpoint | None = None
    most_bytes: int = 0
    """The store took no more than this from the machine."""
    host: HostReport | None = None
    """Only what is new."""
    notice: TakeAway | None = None
    """Only when it has changed; ``NO_NOTICE`` when it is withdrawn."""
    restored: tuple[int, int] | None = None
    """Run epoch and number of the checkpoint that the present run began from; only once for each run."""
    unheard_since: datetime | None = None
    """Of a virtual machine: since when each look has shown no word of its own program."""


class Mailbox:
    def __init__(
        self,
        blobs: BlobStore,
        permit_ttl_s: int,
        hazard_of: Callable[[Lease], float],
        secret: Callable[[str], str],
        unpacker: Unpacker,
        hosts: Hosts,
    ) -> None:
        """``hazard_of``: preemptions per hour to be expected of a lease; ``secret``: the value of the user's secret of
        that name, or ``UserError``; ``unpacker``: reads checkpoints as machines do."""
        self._hosts = hosts
        self._hazard_of = hazard_of
        self._secret = secret
        self._unpacker = unpacker
        self._logs = LogIntake(blobs)
        self._claims = Claims(blobs)
        self._blobs = blobs
        self._permit_ttl_s = permit_ttl_s
        self._rejected: set[tuple[str, int]] = set()
        self._outputs_read: set[tuple[str, int]] = set()
        self._probed: dict[str, Probe] = {}
        self._searches: dict[str, tuple[asyncio.Task[Checkpoint | None], Probe]] = {}
        self._admitted: dict[str, int] | None = None
        self._home_of: dict[str, str] = {}
        self._task_of: dict[str, str] = {}
        self._looked_at: dict[str, int] = {}
        """By lease: the highest number of a checkpoint that the ledger has; the job need not begin from it."""
        self._first_numbers: dict[str, int] = {}
        """By lease: where the numbers of its present task's checkpoints begin, if it had others before."""
        self._withdrawn: set[tuple[str, str]] = set()
        self._taken_over: dict[str, str] = {}
        """Lease → the machine that its user has taken over."""
        self._told: set[tuple[str, str]] = set()
        """Those of the withdrawn whose machine is told that it is its user's."""
        self._written: dict[str, tuple[object, ...]] = {}
        self._heartbeats: dict[str, Heartbeat] = {}
        self._manifests: dict[str, tuple[tuple[str, int], Manifest]] = {}
        self._left_for: dict[str, tuple[LeftRef, ...]] = {}
        self._newest_of: dict[str, tuple[Job, Lease]] = {}
        self._writing: dict[str, asyncio.Lock] = {}
        self.execs = Execs(blobs, self._write, self._claims.add)

    async def read(self, job: Job, lease: Lease, now: datetime) -> Mail:
        """Everything new from the lease's agent. A store that cannot be asked means: nothing new."""
        if lease.instance_id is None or not lease.is_wanted:
            return Mail()
        most_bytes, notice, restored = 0, None, None
        self._follow(job, lease)
        try:
            host = await self._hosts.read(job, lease, now)
            exit_record = await self._read_old_exit(job, lease)
            heartbeat = parse_heartbeat(await self._blobs.get(heartbeat_key(job.id, lease.id)) or b"")
            if heartbeat is not None:
                exit_record = heartbeat.exit if EXIT_HERE in heartbeat.can else exit_record
                next_log = await self._logs.take_in(job.id, lease.id, heartbeat.boot, heartbeat.next_log)
                before = self._heartbeats.get(lease.id)
                self._heartbeats[lease.id] = heartbeat = replace(heartbeat, next_log=next_log)
                restored = self._newly_restored(heartbeat, before)
                if heartbeat.notice != (before.notice if before else None):
                    notice = heartbeat.notice or NO_NOTICE
                most_bytes = await self._claims.most_bytes(job.id, lease, heartbeat)
            if exit_record is not None and exit_record.run_epoch != lease.orders.run_epoch:
                exit_record = None
            ended = exit_record.run_epoch if exit_record else None
            checkpoint = await self._newest(job, lease, heartbeat, ended, now)
            claimed = heartbeat.last_checkpoint if heartbeat else None
            if self._probed.get(lease.id) != (claimed, ended):
                # The last checkpoint comes before the end of the run: the exit waits until none is left to verify.
                exit_record = None
            if heartbeat is not None and lease.id in self._searches:
                heartbeat = _before_its_end(heartbeat)
        except BlobUnavailable as problem:
            log.warning("mailbox.unavailable", lease=lease.id, reason=str(problem))
            return Mail()
        unheard_since = self._hosts.unheard_since(lease.id)
        return Mail(heartbeat, exit_record, checkpoint, most_bytes, host, notice, restored, unheard_since)

    def _newly_restored(self, beat: Heartbeat, before: Heartbeat | None) -> tuple[int, int] | None:
        is_known = before is not None and (before.run_epoch, before.restored) == (beat.run_epoch, beat.restored)
        return None if is_known else beat.restored

    async def _read_old_exit(self, job: Job, lease: Lease) -> ExitRecord | None:
        """That of an agent that may be of an older version. It tells the end after all else: read before the heartbeat,
        it is never newer than that. Raises ``BlobUnavailable``."""
        if self.can(lease.id, EXIT_HERE):
            return None
        return parse_exit(await self._blobs.get(exit_key(job.id, lease.id)) or b"")

    async def admit(self, jobs: Sequence[Job], unknown: Mapping[str, Sequence[Lease]] = NO_LEASES) -> None:
        """Only leases that are not over may write, and only so much; the orders of the others are deleted, or replaced
        by the word that the machine is its user's. ``unknown``: by job, leases that the store knows and the ledger does
        not: what they save on their way out is not to be lost.

        Failures are logged and tried again.
        """
        open_leases = {
            lease_prefix(job.id, lease.id): readable_bytes(lease) * (max(job.spec.checkpoints_kept, FEWEST_KEPT) + 2)
            for job in jobs
            for lease in (*job.leases, *unknown.get(job.id, ()))
            if not lease.is_over
        }
        self.withdraw(lease for job in jobs for lease in job.leases)
        try:
            if open_leases != self._admitted:
                await self._blobs.admit(open_leases)
                self._admitted = open_leases
            if self._withdrawn:
                to_tell = {each for each in self._withdrawn if each[1] in self._taken_over}
                for job_id, lease_id in to_tell - self._told:
                    said = taken_over_orders(self._taken_over[lease_id])
                    await self._blobs.put(orders_key(job_id, lease_id), said)
                kept = {orders_key(*each) for each in to_tell}
                places = {key(*each) for each in self._withdrawn for key in _WHILE_OPEN}
                await self._blobs.delete(sorted(places - kept))
                self._told |= to_tell
                self._withdrawn.clear()
        except BlobUnavailable as problem:
            log.warning("admission.unwritten", reason=str(problem))

    def withdraw(self, leases: Iterable[Lease]) -> None:
        """Delete the secrets of leases that have ended, soon: orders, and a registry's login. And what measured the
        store."""
        over = [lease for lease in leases if lease.is_over]
        places = ((job_id, lease.id) for lease in over for job_id in (lease.first_job_id, lease.job_id) if job_id)
        self._withdrawn.update(places)
        its_users = [lease for lease in over if lease.reason is Reason.TAKEN_OVER]
        self._taken_over |= {lease.id: lease.instance_id for lease in its_users if lease.instance_id}

    async def write_orders(self, job: Job, lease: Lease) -> None:
        """Write the orders when they differ from the last that were written. Failures are logged and tried again."""
        if lease.is_over:
            self._newest_of.pop(lease.id, None)
            return
        if self._taken_over.pop(lease.id, None) is not None:
            # It was found again under our label.
            self._told = {each for each in self._told if each[1] != lease.id}
            self._written.pop(lease.id, None)
        self._follow(job, lease)
        self._newest_of[lease.id] = job, lease
        try:
            await self._write(lease.id)
        except (BlobUnavailable, UserError) as problem:
            log.warning("orders.unwritten", lease=lease.id, reason=str(problem))

    def _follow(self, job: Job, lease: Lease) -> None:
        """Of a machine that goes from one task to the next nothing is known of the new one's mailbox.

        Its last heartbeat still says what it can do; what it asked for was for the task before.
        """
        before, self._task_of[lease.id] = self._task_of.get(lease.id, job.id), job.id
        if before == job.id:
            return
        self._probed.pop(lease.id, None)
        self._looked_at.pop(lease.id, None)
        if lease.id in self._searches:
            self._searches.pop(lease.id)[0].cancel()
        self._rejected = {pair for pair in self._rejected if pair[0] != lease.id}
        self._logs.forget_lease(lease.id)
        self.execs.drop(lease.id)
        if (beat := self._heartbeats.get(lease.id)) is not None:
            heard = beat.boot, beat.seq, beat.run_epoch, beat.orders_seq_seen, AgentState.WAITING
            number = self._first_numbers[lease.id] = beat.next_checkpoint
            self._heartbeats[lease.id] = Heartbeat(*heard, next_checkpoint=number, can=beat.can, ssh=beat.ssh)

    async def _write(self, lease_id: str) -> None:
        """The newest that was committed, one writer at a time: older orders never replace newer ones.

        Raises ``BlobUnavailable``, ``UserError``.
        """
        async with self._writing.setdefault(lease_id, asyncio.Lock()):
            if lease_id not in self._newest_of:
                raise UserError("this daemon has written no orders for the machine yet", hint="try again in a minute")
            await self._write_newest(*self._newest_of[lease_id])

    async def _write_newest(self, job: Job, lease: Lease) -> None:
        heartbeat = self._heartbeats.get(lease.id)
        exec_order = self.execs.of(lease.id)
        restore = job.checkpoint
        face = (
            lease.instance_id,
            lease.permit.seq,
            lease.orders.role,
            job.id,
            lease.orders.run_epoch,
            restore and (restore.lease_id, restore.number),
            heartbeat and _wishes(heartbeat),
            exec_order and exec_order.id,
            self._hosts.face(lease.id),
        )
        if self._written.get(lease.id) == face:
            return
        restorable = await self._restorable(job)
        grant = await self._grant(job, lease, restorable)
        left = await self._left(job)
        host = await self._hosts.plan(job, lease)
        orders = self._orders(job, lease, heartbeat, restorable, grant, left)
        orders = replace(orders, exec=exec_order, host=host)
        home = lease.first_job_id or job.id
        await self._blobs.put(orders_key(home, lease.id), orders.to_json())
        self._written[lease.id] = face
        self._home_of[lease.id] = home

    async def _grant(self, job: Job, lease: Lease, restore: CheckpointRef | None) -> Grant | None:
        """Where the store gives keys: to write this lease's checkpoints and to read those that are restored."""
        own = f"jobs/{job.id}/{lease.id}/ckpt"
        read = {key.partition("/ckpt/")[0] + "/ckpt" for key in (restore.part_keys if restore else ())}
        try:
            return await self._blobs.grant([own], read)
        except BlobUnavailable as problem:  # signed URLs do as well
            log.warning("grant.refused", lease=lease.id, reason=str(problem))
            return None

    def _orders(
        self,
        job: Job,
        lease: Lease,
        heartbeat: Heartbeat | None,
        restore: CheckpointRef | None,
        grant: Grant | None,
        left: Sequence[LeftRef],
    ) -> Orders:
        interval = self._interval(job, lease, heartbeat)
        # One create may have made two machines. Until it is known which one is ours, none of them may begin.
        is_nameless = lease.instance_id is None and lease.orders.role is Role.RUN
        return build_orders(
            self._blobs,
            job_id=job.id,
            lease_id=lease.id,
            home_id=lease.first_job_id,
            instance_id=lease.instance_id,
            run_epoch=lease.orders.run_epoch,
            seq=lease.permit.seq,
            permit_ttl_s=lease.permit.ttl_s or self._permit_ttl_s,
            role="wait" if is_nameless else lease.orders.role.value,
            checkpoint_interval_s=max(1, round(interval.total_seconds())),
            work=self._work(job, lease.orders.role),
            restore=restore,
            heartbeat=heartbeat,
            code=job.code,
            grant=grant,
            left=left,
            check=self._check(job, lease),
        )

    def _check(self, job: Job, lease: Lease) -> CheckWish | None:
        """Within a small share of the time that the machine is expected to stay; once it was made, no more."""
        if lease.agent.readings is not None and lease.agent.readings.arrival is not None:
            return None
        hazard, work = self._hazard_of(lease), job.remaining_work
        stays_s = 3600 / hazard if hazard > 0 else inf
        if work is not None:
            stays_s = min(stays_s, work.total_seconds())
        return CheckWish(max(round(min(CHECK_MOST_S, CHECK_SHARE * stays_s)), 1), find_hosts(job.spec))

    def _interval(self, job: Job, lease: Lease, heartbeat: Heartbeat | None) -> timedelta:
        spec = job.spec
        save_s, upload_s = (heartbeat.save_s, heartbeat.upload_s) if heartbeat else (None, None)
        if spec.interval_is_fixed and spec.max_loss is None:
            return spec.checkpoint_interval
        wanted = checkpoint_interval(spec.checkpoint_interval, spec.max_loss, save_s, upload_s, self._hazard_of(lease))
        # The guard of a deadline reckons that one loss costs no more than the interval of the job file.
        is_bounded = spec.interval_is_fixed or spec.deadline is not None
        return min(wanted, spec.checkpoint_interval) if is_bounded else wanted

    def _work(self, job: Job, role: Role) -> Work:
        """Raises ``UserError`` when a secret is gone."""
        spec = job.spec
        # One run and one curve, however many machines it takes.
        env = {"WANDB_RUN_ID": job.id, "WANDB_RESUME": "allow", **dict(spec.env)}
        if role is Role.LEAVE:
            env = {}  # it starts nothing any more
        else:
            env |= {variable: self._secret(name) for variable, name in spec.secrets}
        return Work(
            run=spec.run,
            setup=spec.setup,
            workdir=spec.workdir,
            env=env,
            checkpoint_path=spec.checkpoint_path or "",
            estimate_s=None if spec.work_estimate is None else round(spec.work_estimate.total_seconds()),
            progress=spec.progress,
            stall_s=0 if spec.stall_after is None else round(spec.stall_after.total_seconds()),
            stall_fails=spec.stall_fails,
            inputs=fetched_inputs(spec.inputs),
            outputs=spec.outputs,
            as_root=spec.as_root,
            in_bash=spec.in_bash,
        )

    async def _restorable(self, job: Job) -> CheckpointRef | None:
        """The job's newest verified checkpoint, by the daemon's own copy of its manifest.

        Raises ``BlobUnavailable`` when that cannot be read: orders to start over would throw the work away.
        """
        newest = job.checkpoint
        if newest is None:
            return None
        manifest = await self._kept_manifest(newest)
        if manifest is None:
            raise BlobUnavailable(f"the manifest of the newest checkpoint of {job.id} is missing")
        key = verified_key(job.id, newest.lease_id, newest.number)
        return CheckpointRef(newest.lease_id, newest.number, key, manifest.part_keys(job.id, newest.lease_id))

    async def _left(self, job: Job) -> tuple[LeftRef, ...]:
        """What it takes of jobs that have ended before it began, by the daemon's own copies of their manifests.

        Raises ``BlobUnavailable`` when one cannot be read.
        """
        if job.id not in self._left_for:
            found = []
            for wanted in left_inputs(job.spec.inputs):
                manifest = await kept_outputs(self._blobs, wanted.job)
                if manifest is None:
                    raise BlobUnavailable(f"the outputs of {wanted.job}, which {job.id} takes, are missing")
                found.append(LeftRef(wanted, manifest.number, manifest.part_keys(wanted.job, "")))
            self._left_for[job.id] = tuple(found)
        return self._left_for[job.id]

    async def _kept_manifest(self, checkpoint: Checkpoint) -> Manifest | None:
        name = checkpoint.lease_id, checkpoint.number
        known, manifest = self._manifests.get(checkpoint.job_id, (None, None))
        if known != name:
            manifest = await kept_manifest(self._blobs, checkpoint.job_id, *name)
            if manifest is not None:
                self._manifests[checkpoint.job_id] = name, manifest
        return manifest

    def doubts(self, jobs: Sequence[Job]) -> tuple[Doubt, ...]:
        """Checkpoints that a machine could not restore because they were not what their manifests say."""
        return tuple(
            Doubt(job.checkpoint, lease.id, lease.machine_id)
            for job in jobs
            for lease in job.leases
            if job.checkpoint and (beat := self._heartbeats.get(lease.id)) and _cannot_restore(beat)
        )

    def is_reading(self, lease_id: str) -> bool:
        """Whether a checkpoint of that lease is being verified."""
        return lease_id in self._searches

    def note_kept(self, checkpoint: Checkpoint) -> None:
        """The ledger has it."""
        self._looked_at[checkpoint.lease_id] = checkpoint.number

    def can(self, lease_id: str, ability: str) -> bool:
        """Whether the machine's agent has said so."""
        heartbeat = self._heartbeats.get(lease_id)
        return heartbeat is not None and ability in heartbeat.can

    def login(self, lease_id: str) -> SshLogin | None:
        """Where the user may log in, as the machine's agent said last."""
        heartbeat = self._heartbeats.get(lease_id)
        return None if heartbeat is None else heartbeat.ssh

    def newest_seq(self, lease: Lease) -> int:
        """Number of the lease's newest orders: the ledger's, or what its agent has seen, if an older ledger was
        restored.
        """
        heartbeat = self._heartbeats.get(lease.id)
        seen = heartbeat.orders_seq_seen if heartbeat else 0
        return max(seen, lease.permit.seq) if seen <= lease.permit.seq + SEQS_AT_ONCE else lease.permit.seq

    def forget(self, lease_ids: frozenset[str], job_ids: frozenset[str]) -> None:
        """Drop what is kept for leases and jobs other than these."""
        self._logs.forget(lease_ids)
        self._claims.forget(lease_ids)
        self._hosts.forget(lease_ids)
        self.execs.forget(lease_ids)
        for lease_id in self._home_of.keys() - lease_ids:
            self._withdrawn.add((self._home_of.pop(lease_id), lease_id))
        for job_id in self._manifests.keys() - job_ids:
            del self._manifests[job_id]
        for job_id in self._left_for.keys() - job_ids:
            del self._left_for[job_id]
        by_lease: tuple[dict[str, Any], ...] = (self._probed, self._written, self._heartbeats, self._looked_at)
        for kept in (*by_lease, self._newest_of, self._writing, self._task_of, self._first_numbers):
            for lease_id in kept.keys() - lease_ids:
                del kept[lease_id]
        self._rejected = {pair for pair in self._rejected if pair[0] in lease_ids}
        self._outputs_read = {pair for pair in self._outputs_read if pair[0] in lease_ids}
        for lease_id in self._searches.keys() - lease_ids:
            self._searches.pop(lease_id)[0].cancel()

    async def _newest(
        self, job: Job, lease: Lease, heartbeat: Heartbeat | None, ended: int | None, now: datetime
    ) -> Checkpoint | None:
        """The newest checkpoint that this run wrote since the last look, verified; None when there is none.

        ``ended``: its run epoch, once it has.
        """
        claimed = heartbeat.last_checkpoint if heartbeat else None
        if lease.id not in self._searches:
            if self._probed.get(lease.id) == (claimed, ended):
                return None
            # A daemon that was away may not know the claim of a machine that is gone, and that may have left out slots.
            leaps = 1 if lease.id in self._probed else CHECKPOINTS_AHEAD
            task = asyncio.create_task(self._search(job, lease, claimed or 0, ended is not None, now, leaps))
            self._searches[lease.id] = task, (claimed, ended)
        # Hashing a large checkpoint takes longer than a tick may: a later tick picks up what this one began.
        search, claim = self._searches[lease.id]
        await asyncio.wait({search}, timeout=SEARCH_WAIT_REAL_S)
        if not search.done():
            return None
        del self._searches[lease.id]
        newest = search.result()
        if newest is None:
            # Of what was so when it began: what was claimed, or ended, since then is yet to be looked for.
            self._probed[lease.id] = claim
        return newest

    async def _search(
        self, job: Job, lease: Lease, claimed: int, ended: bool, now: datetime, leaps: int
    ) -> Checkpoint | None:
        """``leaps``: so many numbers in a row without a manifest are the end of it."""
        if ended and job.spec.outputs and (lease.id, lease.orders.run_epoch) not in self._outputs_read:
            outputs = await verified_outputs(
                self._blobs, self._unpacker, job.id, lease.id, lease.orders.run_epoch, readable_bytes(lease)
            )
            log.info("outputs.verified" if outputs else "outputs.missing", job=job.id, lease=lease.id)
            self._outputs_read.add((lease.id, lease.orders.run_epoch))
        verified = job.checkpoint.number if job.checkpoint and job.checkpoint.lease_id == lease.id else -1
        number = max(verified, self._looked_at.get(lease.id, -1)) + 1
        number = max(number, claimed, self._first_numbers.get(lease.id, 0))
        newest: Checkpoint | None = None
        missing = 0
        while missing < leaps:
            missing += 1
            if await self._blobs.size(manifest_key(job.id, lease.id, number)) is not None:
                missing = 0
                if self._is_plausible(lease.id, number):
                    newest = await self._verify(job, lease, number, now) or newest
            number += 1
        return newest

    def _is_plausible(self, lease_id: str, number: int) -> bool:
        """Reading a checkpoint to verify it is at our cost: one that makes us do so in vain time and again may lie."""
        rejected = sorted(known for lease, known in self._rejected if lease == lease_id)
        return number not in rejected and len(rejected) < MOST_REJECTED

    async def _verify(self, job: Job, lease: Lease, number: int, now: datetime) -> Checkpoint | None:
        """Only the run that the job is in now may add to its checkpoints: a zombie of an older one may not."""
        kept = await self._kept_manifest(job.checkpoint) if job.checkpoint else None
        trusted = contents(kept, job.id, job.checkpoint.lease_id) if kept and job.checkpoint else frozenset()
        manifest = await verified_manifest(
            self._blobs, self._unpacker, job.id, lease.id, number, trusted, readable_bytes(lease)
        )
        if manifest is None or not manifest.run_epoch == lease.orders.run_epoch == job.run_epoch:
            self._rejected.add((lease.id, number))
            reason = "not whole" if manifest is None else f"written under run epoch {manifest.run_epoch}"
            log.warning("checkpoint.rejected", job=job.id, lease=lease.id, number=number, reason=reason)
            return None
        await keep_verified(self._blobs, job.id, lease.id, manifest, now, job.work_done)
        return Checkpoint(
            job_id=job.id,
            lease_id=lease.id,
            number=number,
            run_epoch=manifest.run_epoch,
            step=manifest.step or 0,
            work_done=job.work_done,
            size_bytes=manifest.size,
            part_count=len(manifest.parts),
            verified_at=now,
            is_suspect=manifest.suspect,
        )


def readable_bytes(lease: Lease) -> int:
    """No machine has more to send than its disk holds: reading more, to verify it, would be at our cost."""
    return int(lease.disk_gb * BYTES_PER_GB * DISK_MARGIN)


def _cannot_restore(heartbeat: Heartbeat) -> bool:
    return heartbeat.restore_failed and heartbeat.state not in AT_WORK


def _wishes(heartbeat: Heartbeat) -> tuple[object, ...]:
    """What in a heartbeat calls for other orders. Of addresses for output there are more than a few at once."""
    parts = heartbeat.next_part, heartbeat.parts_wanted, heartbeat.restore_part, heartbeat.state
    left = heartbeat.left, heartbeat.left_part
    measured = heartbeat.save_s, heartbeat.upload_s
    whole = heartbeat.whole_parts
    return heartbeat.boot, heartbeat.next_log // LOGS_APART, whole, heartbeat.next_checkpoint, *parts, *left, *measured


def mail_events(job: Job, before: Job, lease: Lease, mail: Mail, now: datetime) -> Iterator[e.Event]:
    """The events for an agent's mail, in the order in which they must be applied.

    ``before``: the job as the tick found it.
    """
    if mail.heartbeat is not None and mail.heartbeat.boot <= lease.agent.boot + BOOTS_AT_ONCE:
        beat = _of_present_run(mail.heartbeat, lease)
        stop_heard = lease.orders.role is Role.SAVE_AND_STOP and 0 < lease.orders.stop_seq <= beat.orders_seq_seen
        yield e.HeartbeatSeen(
            lease.id,
            boot=beat.boot,
            seq=beat.seq,
            agent_state=beat.state,
            step=beat.step,
            progress=None if beat.progress is None else Decimal(str(beat.progress)),
            last_checkpoint_number=beat.last_checkpoint,
            log_count=beat.next_log,
            saved=beat.saved and stop_heard,
            at=now,
            sent_bytes=beat.bytes_sent,
            can_run_again=RUN_AGAIN in beat.can,
            can_take_next=NEXT_TASK in beat.can,
            most_bytes=within_budget(job, before, lease, mail.most_bytes),
            readings=beat.readings,
        )
    if mail.notice is not None:
        yield e.NoticeChanged(lease.id, mail.notice.kind, mail.notice.ends_at, now)
    if mail.restored is not None:
        yield e.RunRestored(lease.id, *mail.restored, now)
    if mail.checkpoint is not None:
        yield e.CheckpointVerified(mail.checkpoint, now)
    if mail.exit is not None and lease.agent.exit_code is None:
        yield e.RunExited(
            lease.id,
            mail.exit.run_epoch,
            mail.exit.exit_code,
            now,
            is_of_host=mail.exit.is_of_host,
            is_of_command=mail.exit.is_of_command,
            is_syntax=mail.exit.is_syntax,
            has_saved=mail.exit.has_saved,
            memory=None if (used := mail.exit.memory) is None else (used.peak, used.limit),
            began_from=mail.heartbeat.restored if mail.heartbeat else None,
        )


def _before_its_end(beat: Heartbeat) -> Heartbeat:
    """A machine whose permit is over is given up at once: not while its last checkpoint is being read."""
    return replace(beat, state=AgentState.SAVING) if beat.state is AgentState.EXPIRED else beat


def _of_present_run(beat: Heartbeat, lease: Lease) -> Heartbeat:
    """What a machine says of the run before is no word about the one that it is to begin."""
    if beat.run_epoch >= lease.orders.run_epoch or beat.state not in AT_WORK:
        return beat
    return replace(beat, state=AgentState.WAITING, step=None, progress=None)
