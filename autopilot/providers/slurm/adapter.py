"""A Slurm cluster behind the engine's ``Provider`` protocol."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from importlib import resources

from autopilot.domain.drift import Drift
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.slurm import commands, mapping, states
from autopilot.providers.slurm.config import PartitionSettings, SlurmSettings
from autopilot.providers.slurm.line import ClusterShell, Sections, Unreached, new_token
from autopilot.providers.slurm.states import Phase
from autopilot.providers.slurm.wire import (
    SeenEnd,
    SeenJob,
    SeenLease,
    SeenPartition,
    UnreadableOutput,
    clean,
    name_of,
    read_config,
    read_ends,
    read_jobs,
    read_leases,
    read_partitions,
    read_submitted,
)

KILL_WAIT_S = 30
"""Slurm's own default, where its configuration does not show it."""
SHARE = Decimal("0.8")
"""Of a notice's time for the agent: its look at the notice, and its end, take the rest."""
_REFUSED = "Batch job submission failed: "
_UNSURE = ("timed out", "Zero Bytes", "Unable to contact", "Unexpected message", "ommunication", "onnection")
"""Words of a refusal that is none: the controller may have taken the job all the same."""
_WRONG = {
    "Invalid account": RefusalCode.NO_RIGHTS,
    "not permitted": RefusalCode.NO_RIGHTS,
    "denied": RefusalCode.NO_RIGHTS,
    "limit": RefusalCode.QUOTA,
}
Outcome = Done[None] | Refused | Unknown


@dataclass(frozen=True, slots=True)
class Queue:
    """The user's jobs and leases at one moment."""

    user: str
    jobs: tuple[SeenJob, ...]
    leases: Mapping[str, SeenLease]

    def job(self, job_id: str) -> SeenJob | None:
        return next((each for each in self.jobs if each.job_id == job_id), None)

    def lease(self, job_id: str) -> SeenLease | None:
        """By the name of the job that has this id; of one that the queue has forgotten, by its own record."""
        job = self.job(job_id)
        if job is not None:
            lease = self.leases.get(job.name)
            return lease if lease is not None and lease.job_id in ("", job_id) else None
        return next((each for each in self.leases.values() if each.job_id == job_id), None)

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all that is shown as a machine: a job that is over counts as long as its directory is there."""
        live = {each.job_id for each in self.jobs if states.phase_of(each.state) is not Phase.OVER}
        kept = {each.job_id for each in self.leases.values() if each.job_id}
        over = {each.job_id for each in self.jobs if self.lease(each.job_id) is not None}
        return tuple(sorted(live | kept | over, key=int))


@dataclass(frozen=True, slots=True)
class Partitions:
    seen: Mapping[str, SeenPartition]
    disk_gb: Decimal
    kill_wait_s: int


class SlurmProvider:
    name = mapping.PROVIDER
    kept_logins = None
    ssh_keys = None

    def __init__(self, settings: SlurmSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._line = ClusterShell(settings)
        self._partitions: tuple[float, Partitions] | None = None
        self._ends: dict[str, SeenEnd] = {}
        self.capabilities = Capabilities(
            spot=False,
            on_demand=True,
            can_rebid=False,
            pauses_when_outbid=True,
            keeps_disk_when_stopped=True,
            reports_floor=False,
            bills_at_bid=False,
            is_pooled=True,
            notice_s=KILL_WAIT_S,
            has_bills=False,
            free_start_s=settings.longest_wait_s,
        )

    # -- looks

    async def _look(self) -> Queue:
        """Raises ``MarketUnknown``."""
        try:
            answer = await self._line.ask(commands.look(), "leases", "user", "jobs")
            leases = read_leases(answer.text("leases"))
            user, jobs = answer.text("user").strip(), read_jobs(answer.text("jobs"))
        except (Unreached, UnreadableOutput) as problem:
            raise MarketUnknown(f"{self._line.place}: {problem}") from None
        if any(each.user != user for each in jobs):
            raise MarketUnknown(f"{self._line.place}: squeue shows jobs of another user")
        return Queue(user, jobs, {each.name: each for each in leases})

    async def _look_at_partitions(self) -> Partitions:
        """At most as old as the settings say. Raises ``MarketUnknown``."""
        now = self._clock.monotonic()
        if self._partitions is not None and now - self._partitions[0] < self._settings.looks_max_age_s:
            return self._partitions[1]
        wanted = ("nodes", "partitions", "config", "room")
        try:
            answer = await self._line.ask(commands.look_at_partitions(), *wanted)
            nodes, partitions, config, room = map(answer.text, wanted)
            seen = read_partitions(nodes, partitions, config)
        except (Unreached, UnreadableOutput) as problem:
            raise MarketUnknown(f"{self._line.place}: {problem}") from None
        killing = read_config(config).get("KillWait", "").split(" ")[0]
        kill_wait_s = int(killing) if killing.isascii() and killing.isdigit() else KILL_WAIT_S
        found = Partitions(seen, _free_gb(room), min(kill_wait_s, 3600))
        self._partitions = now, found
        return found

    async def instances(self) -> tuple[Instance, ...]:
        return await self._show(await self._look())

    async def instance(self, instance_id: str) -> Instance | None:
        shown = await self._show(await self._look())
        return next((each for each in shown if each.instance_id == instance_id), None)

    async def _show(self, queue: Queue) -> tuple[Instance, ...]:
        over = [each for each in queue.ids if _is_over(queue.job(each))]
        await self._ask_for_ends([each for each in over if each not in self._ends])
        shown = []
        for job_id in queue.ids:
            job, lease = queue.job(job_id), queue.lease(job_id)
            if not _is_over(job):
                assert job is not None
                status = mapping.status_of_job(job, lease)
            else:
                assert lease is not None
                status = mapping.status_of_end(job, lease, self._ends.get(job_id))
            shown.append(mapping.instance(job_id, job, lease, status, self._settings.partitions))
        return tuple(shown)

    async def _ask_for_ends(self, job_ids: list[str]) -> None:
        """What the accounting says of them, where there is one: without it their states alone are told."""
        if not job_ids:
            return
        try:
            answer = await self._line.ask(commands.ends(job_ids), "ends")
            self._ends = {**self._ends, **read_ends(answer.text("ends"))}
        except Unreached:
            return

    # -- offers

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """Of those of the named partitions that take jobs, whether any node is free now or not."""
        found, queue = await self._look_at_partitions(), await self._look()
        held, taken_back, now = _held(queue), _taken_back(queue), self._clock.now()
        named = self._settings.partitions
        return tuple(mapping.offers(named, found.seen, held, taken_back, found.disk_gb, query, now))

    async def gpu_names(self) -> tuple[str, ...]:
        return tuple(sorted({each.gpu for each in self._settings.partitions.values()}))

    async def account(self) -> Account:
        """Nobody is paid."""
        return Account(credit=None, account_id="own")

    async def quotas(self) -> tuple[AccountQuota, ...]:
        """How many jobs each partition gets at once."""
        held = _held(await self._look())
        return tuple(
            AccountQuota("jobs at once", each.jobs, held.get(name, 0), name)
            for name, each in sorted(self._settings.partitions.items())
        )

    # -- changes

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """The directory of a label is made once, and only the request that made it sends a job."""
        if request.capacity_type is not CapacityType.ON_DEMAND:
            return Refused(RefusalCode.WRONG_TERMS, "there are no bids in a queue")
        try:
            partition, num_gpus = mapping.parts_of_offer(request.offer_id)
            settings = self._settings.partitions[partition]
        except (ValueError, KeyError):
            return Refused(RefusalCode.OFFER_GONE, f"no such partition is named: {clean(request.offer_id)}")
        if request.bid < settings.price:
            return Refused(RefusalCode.WRONG_TERMS, f"it costs ${settings.price} an hour")
        try:
            found, queue = await self._look_at_partitions(), await self._look()
        except MarketUnknown as problem:
            return Refused(RefusalCode.OFFER_GONE, str(problem))
        seen = found.seen.get(partition)
        if seen is None or num_gpus > mapping.gpus_on_a_node(settings, seen):
            return Refused(RefusalCode.OFFER_GONE, f"{partition} has no such GPUs")
        name = name_of(request.label)
        known = next((each.job_id for each in queue.jobs if each.name == name), "")
        if known:
            return Done(Created(known))
        if _held(queue).get(partition, 0) >= settings.jobs:
            return Refused(RefusalCode.OFFER_GONE, f"{settings.jobs} jobs are in {partition} already")
        limit_s = mapping.limit_of(settings, seen)
        words = commands.options(partition, settings, name, num_gpus, limit_s)
        texts = self._texts(request, partition, settings, num_gpus, seen, found.kill_wait_s, limit_s)
        return await self._create(name, texts, words, queue.user)

    def _texts(
        self,
        request: CreateRequest,
        partition: str,
        settings: PartitionSettings,
        num_gpus: int,
        seen: SeenPartition,
        kill_wait_s: int,
        limit_s: int | None,
    ) -> commands.Texts:
        times = {
            "GRACE": seen.grace_s or kill_wait_s,
            "NOTICE": commands.NOTICE_S,
            "KILL": kill_wait_s,
        }
        speed = Decimal(str(self._clock.speed))
        told = "".join(f"{key}_S={value} {key}_TOLD={value * SHARE * speed}\n" for key, value in times.items())
        return commands.Texts(
            lease=f"{settings.gpu}|{num_gpus}|{request.bid:f}|{partition}",
            lease_sh=f"{told}LIMIT_S={limit_s or 0}",
            env_sh=commands.exports(request.env),
            before_sh=settings.before,
            start_sh=request.onstart,
            batch_sh=_read_shipped("batch.sh"),
            watch_sh=_read_shipped("watch.sh"),
        )

    async def _create(
        self, name: str, texts: commands.Texts, words: list[str], user: str
    ) -> Done[Created] | Refused | Unknown:
        token = new_token()
        try:
            answer = await self._line.ask(commands.create(name, texts, words, token), "make", token=token)
        except Unreached as problem:
            return Unknown(str(problem))
        _, made = answer.sections["make"]
        if made == 3:
            return Unknown(f"a job was sent under this label before: {answer.errors}")
        if made or "send" not in answer.sections:
            return await self._refuse(name, RefusalCode.INVALID, f"its directory cannot be written: {answer.errors}")
        said, status = answer.sections["send"]
        if status:
            return await self._judge_refusal(name, answer)
        job_id = read_submitted(said)
        if job_id is None:
            return Unknown(f"sbatch has told no job: {clean(said)}")
        return await self._check_back(job_id, name, user, answer)

    async def _judge_refusal(self, name: str, answer: Sections) -> Refused | Unknown:
        _, mark, reason = answer.errors.partition(_REFUSED)
        if not mark or any(each in reason for each in _UNSURE):
            return Unknown(answer.errors or "sbatch has failed without a word")
        code = next((code for words, code in _WRONG.items() if words in reason), RefusalCode.INVALID)
        return await self._refuse(name, code, reason)

    async def _refuse(self, name: str, code: RefusalCode, reason: str) -> Refused:
        """No job was sent: the directory goes. One that stays is no machine."""
        with contextlib.suppress(Unreached):
            await self._line.ask(commands.remove(name), "gone")
        return Refused(code, reason)

    async def _check_back(
        self, job_id: str, name: str, user: str, answer: Sections
    ) -> Done[Created] | Refused | Unknown:
        try:
            back = read_jobs(answer.text("back")) if "back" in answer.sections else None
        except (Unreached, UnreadableOutput) as problem:
            return Unknown(str(problem), job_id)
        if back is None:
            return Unknown("the new job cannot be read back", job_id)
        if [(each.job_id, each.name, each.user) for each in back] == [(job_id, name, user)]:
            return Done(Created(job_id))
        try:
            await self._line.ask(commands.cancel(job_id, user, name) + commands.remove(name), "cancel", "gone")
        except Unreached as problem:
            return Unknown(str(problem), job_id)
        return Refused(RefusalCode.INVALID, "the cluster changes a job's comment or name, by which autopilot knows it")

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        return Refused(RefusalCode.INVALID, "there are no bids in a queue")

    async def start(self, instance_id: str) -> Outcome:
        return await self._change(instance_id, "release")

    async def stop(self, instance_id: str) -> Outcome:
        return await self._change(instance_id, "halt")

    async def _change(self, instance_id: str, section: str) -> Outcome:
        """Of a job that carries our mark now, and has a directory to run in."""
        try:
            queue = await self._look()
            if _is_over(queue.job(instance_id)) or queue.lease(instance_id) is None:
                return Refused(RefusalCode.NOT_FOUND, f"there is no such job of autopilot's: {clean(instance_id)}")
            text = commands.halt(instance_id) if section == "halt" else commands.release(instance_id)
            (await self._line.ask(text, section)).text(section)
        except (Unreached, MarketUnknown) as problem:
            return Unknown(str(problem))
        return Done(None)

    async def destroy(self, instance_id: str) -> Outcome:
        """Cancel that very job, if its user, name and comment are those of the lease, and remove its directory."""
        try:
            queue = await self._look()
            job, lease = queue.job(instance_id), queue.lease(instance_id)
            if job is None and lease is None:
                return Refused(RefusalCode.NOT_FOUND, f"there is no such job of autopilot's: {clean(instance_id)}")
            is_leaving = job is None or _is_over(job) or (lease is None and states.phase_of(job.state) is Phase.ENDS)
            text = "" if job is None or is_leaving else commands.cancel(instance_id, queue.user, job.name)
            text += "" if lease is None else commands.remove(lease.name)
            if text:
                answer = await self._line.ask(text)
                for section in answer.sections:
                    answer.text(section)
        except (Unreached, MarketUnknown) as problem:
            return Unknown(str(problem))
        return Done(None)

    async def start_words(self, instance_id: str) -> str:
        """The end of what the batch script and the agent have said."""
        try:
            lease = (await self._look()).lease(instance_id)
            if lease is None:
                return ""
            return (await self._line.ask(commands.words(lease.name), "words")).text("words").strip()
        except (Unreached, MarketUnknown):
            return ""

    # -- what a queue has not

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        raise MarketUnknown("nobody sends a bill for a queue of your own")

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        return ()

    def drifts(self) -> tuple[Drift, ...]:
        return ()

    def reported_time(self) -> ReportedTime | None:
        return None

    def remarks(self) -> tuple[Remark, ...]:
        return ()

    async def close(self) -> None:
        """No connection is kept open."""


def _is_over(job: SeenJob | None) -> bool:
    return job is None or states.phase_of(job.state) is Phase.OVER


def _held(queue: Queue) -> Mapping[str, int]:
    """Jobs with our mark in each partition, waiting or running."""
    return Counter(each.partition for each in queue.jobs if not _is_over(each))


def _taken_back(queue: Queue) -> frozenset[str]:
    """Partitions where a job of ours that has run waits again."""
    waiting = (each for each in queue.jobs if states.phase_of(each.state) is Phase.WAITS)
    leases = ((each.partition, queue.leases.get(each.name)) for each in waiting)
    return frozenset(partition for partition, lease in leases if lease is not None and lease.begun)


def _free_gb(text: str) -> Decimal:
    """Of ``df -Pk``. Raises ``UnreadableOutput``."""
    cells = text.strip().split("\n")[-1].split()
    if len(cells) < 6 or not (cells[3].isascii() and cells[3].isdigit()) or len(cells[3]) > 18:
        raise UnreadableOutput("df does not say how much room there is")
    return Decimal(int(cells[3]) * 1024) // 10**9


def _read_shipped(name: str) -> str:
    return resources.files("autopilot.providers.slurm.shipped").joinpath(name).read_text()
