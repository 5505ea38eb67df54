"""What a seed is about: the jobs that are submitted, what the user asks for later, limits, markets."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain import events as e
from autopilot.domain.after import After, On
from autopilot.domain.array import ArraySpec
from autopilot.domain.cadence import Cadence, Overlap
from autopilot.domain.job import GpuChoice, Job, JobSpec, JobStatus, SpotPolicy
from autopilot.domain.reasons import Reason
from autopilot.domain.schedule import Schedule, ScheduleReason, ScheduleStatus
from autopilot.domain.token import Scope, Token
from autopilot.engine.event_log import EventLog
from autopilot.engine.firings import end, move
from autopilot.policy.guard import Limits
from autopilot.ports.store import EventRecord, UnitOfWork
from tests.simulation.ground.faults import Burst
from tests.simulation.ground.machines import Host
from tests.simulation.virtual.clock import at

GPU = "RTX 4090"
HOUR_S = 3600.0
LENGTH_S = 28 * HOUR_S
TICKS_S = {15.0: 1, 20.0: 1, 30.0: 4, 60.0: 10}
"""How long a tick lasts, and how often that is drawn: seeds with seldom ticks take less time to play."""
TWO_MARKETS = ("vastai", "runpod")
UNDER_A_TOKEN = 0.4
"""Share of the seeds."""
WITHOUT_CERTIFICATE = 0.06
"""Share of the seeds in which a market has no certificate, and an allowance."""
OF_ARRAYS = 0.25
"""Share of the seeds in which a job is an array."""
FOLLOWED = 0.4
"""Share of the seeds with an array in which another follows it task by task."""
FIRES_ARRAYS = 0.3
"""Share of the seeds with a schedule in which each firing is an array."""
IN_A_ROW = 0.25
"""Share of the seeds in which jobs wait for earlier ones."""
AGAIN_AND_AGAIN = 0.25
"""Share of the seeds with a schedule."""
WITH_AN_AUCTION = 0.3
"""Share of the seeds in which a market of virtual machines replaces one of the others."""
UNDER_A_CAP = 0.25
"""Share of the seeds in which a market of virtual machines under caps is open."""
CAPPED_NAME = "nebius 622"
"""Of the generator that chooses these: by this one the seeds that the catalogue names play as they did before."""
D = Decimal


@dataclass(frozen=True, slots=True)
class Submit:
    job_id: str
    spec: JobSpec
    owner: int = 0

    async def grant(self, uow: UnitOfWork, now: datetime) -> None:
        if await uow.jobs.find(self.job_id) is None:
            reason = Reason.WAITING_FOR_JOBS if self.spec.after else Reason.SUBMITTED
            await uow.jobs.save(Job(self.job_id, self.spec, JobStatus.PENDING, reason, now, owner=self.owner))


@dataclass(frozen=True, slots=True)
class Move:
    """Cancel a job, or let a parked one go on. To cancel one that has failed is to give back its machine."""

    job_id: str
    status: JobStatus

    async def grant(self, uow: UnitOfWork, now: datetime) -> None:
        job = await uow.jobs.find(self.job_id)
        if job is not None and self.status is JobStatus.CANCELLING and job.on_hold is not None:
            await GiveBack(self.job_id).grant(uow, now)
            return
        if job is None or job.status.is_final:
            return
        if self.status is JobStatus.PENDING and job.status is not JobStatus.PARKED:
            return
        reason = Reason.SUBMITTED if self.status is JobStatus.PENDING else Reason.USER_CANCELLED
        await _apply(uow, job, e.StatusSet(self.status, reason, now))


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The machine that is held of a job that has failed, as ``autopilot release`` does."""

    job_id: str

    async def grant(self, uow: UnitOfWork, now: datetime) -> None:
        job = await uow.jobs.find(self.job_id)
        if job is not None and job.on_hold is not None:
            await _apply(uow, job, e.ReleaseRequested(job.on_hold.id, Reason.USER_RELEASED, now))


@dataclass(frozen=True, slots=True)
class Revoke:
    """A token, as ``autopilot token revoke`` does."""

    number: int

    async def grant(self, uow: UnitOfWork, now: datetime) -> None:
        for token in await uow.tokens.list_all():
            if token.number == self.number and token.revoked_at is None:
                await uow.tokens.save(replace(token, revoked_at=now))


@dataclass(frozen=True, slots=True)
class Repeat:
    """A job file with ``[schedule]``."""

    schedule_id: str
    spec: JobSpec
    owner: int = 0

    async def grant(self, uow: UnitOfWork, now: datetime) -> None:
        if await uow.schedules.find(self.schedule_id) is None:
            status, reason = ScheduleStatus.ACTIVE, ScheduleReason.SUBMITTED
            await uow.schedules.save(Schedule(self.schedule_id, self.spec, self.owner, status, reason, now, now))


@dataclass(frozen=True, slots=True)
class MoveSchedule:
    """Pause it, let it go on, or end it with all jobs of it that are not over."""

    schedule_id: str
    status: ScheduleStatus

    async def grant(self, uow: UnitOfWork, now: datetime) -> None:
        schedule = await uow.schedules.find(self.schedule_id)
        if schedule is None:
            return
        if schedule.status not in (self.status, ScheduleStatus.ENDED):
            records: list[EventRecord] = []
            is_over = self.status is ScheduleStatus.ENDED
            moved = (
                end(schedule, ScheduleReason.USER_ENDED, now, records)
                if is_over
                else move(schedule, self.status, now, records)
            )
            await uow.schedules.save(moved)
            await uow.events.add(records)
        for job in await uow.jobs.list_open() if self.status is ScheduleStatus.ENDED else ():
            if job.schedule_id == schedule.id:
                await Move(job.id, JobStatus.CANCELLING).grant(uow, now)


async def _apply(uow: UnitOfWork, job: Job, event: e.Event) -> None:
    event_log = EventLog(job)
    event_log.apply(event)
    await uow.jobs.save(event_log.job)
    await uow.events.add(event_log.records)


Wish = Submit | Move | GiveBack | Revoke | Repeat | MoveSchedule


@dataclass(frozen=True, slots=True)
class Scenario:
    """``wishes``: (when, what). Times are seconds of the run."""

    wishes: tuple[tuple[float, Wish], ...]
    limits: Limits
    tick_s: float
    length_s: float = LENGTH_S
    goes_on_s: float = HOUR_S
    """After the faults are over, before the user cancels what still runs."""
    idle_s: float = 4 * HOUR_S
    """For so long a job may wait beside machines that it may have."""
    acts: tuple[tuple[float, str], ...] = ()
    """(when, what befalls the world) beyond what faults do: names of ``events.ACTS``."""
    script: Mapping[str, Collection[int]] | None = None
    """Instead of rng: which opportunities of each row of the catalogue are taken."""
    bursts: tuple[Burst, ...] = ()
    """With a script."""
    tokens: tuple[Token, ...] = ()
    """Known to the ledger from the beginning: owners of some of the jobs."""
    markets: tuple[str, ...] = TWO_MARKETS
    is_alone: bool = False
    """No market has other bidders, so each stays at its least."""
    uncertified: Mapping[str, Decimal] = field(default_factory=dict)
    """By market without a certificate: dollars that may be spent there all the same, of all of them as many."""
    permit_s: int = 900
    """The longest permit, as the settings say."""
    host_rules: frozenset[str] = frozenset()
    """Checkers of hosts that hold where hosts differ, and are asked for."""

    @property
    def jobs(self) -> dict[str, JobSpec]:
        return {wish.job_id: wish.spec for _, wish in self.wishes if isinstance(wish, Submit)}

    @property
    def schedules(self) -> list[str]:
        return [wish.schedule_id for _, wish in self.wishes if isinstance(wish, Repeat)]


def a_spec(work: timedelta, **changes: object) -> JobSpec:
    """A job of so much work; its command says how much, for the machine to know."""
    spec = JobSpec(
        name="train",
        image="some/image:1",
        run=f"work {round(work.total_seconds())}",
        gpus=(GpuChoice(GPU),),
        work_estimate=work,
        checkpoint_path="ckpt",
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def draw_scenario(seed: int) -> Scenario:
    """Three jobs over 28 hours, with limits from hardly enough to generous."""
    rng = random.Random(f"{seed}/scenario")
    needs, holds = random.Random(f"{seed}/needs"), random.Random(f"{seed}/holds")
    wishes: list[tuple[float, Wish]] = []
    begins_s = 60.0
    for number in range(3):
        work = timedelta(minutes=rng.choice((20, 60, 180, 360, 600)))
        job_id = f"01JOB{seed % 10**9:09d}{number:012d}"
        wishes.append((begins_s, Submit(job_id, replace(_a_job(rng, needs, work, begins_s), hold=_a_hold(holds)))))
        if rng.random() < 0.15:
            wishes.append((begins_s + rng.uniform(60, 4 * HOUR_S), Move(job_id, JobStatus.CANCELLING)))
        if rng.random() < 0.3:
            wishes.append((begins_s + rng.uniform(HOUR_S, 8 * HOUR_S), Move(job_id, JobStatus.PENDING)))
        begins_s += rng.uniform(0, 6 * HOUR_S)
    day = rng.choice((None, D(2), D(4), D(50)))
    month = rng.choice((None, None, D(5), D(500)))
    an_hour = random.Random(f"{seed}/launches").choice((20, 20, 20, 2))
    limits = Limits(day, month, D(10), 8, 3, an_hour)
    tick_s = rng.choices(*zip(*TICKS_S.items(), strict=True))[0]
    wishes = _with_array(random.Random(f"{seed}/array"), wishes)
    wishes = _with_follower(random.Random(f"{seed}/pairs"), seed, wishes)
    wishes = _in_a_row(random.Random(f"{seed}/line"), wishes)
    wishes += _again_and_again(random.Random(f"{seed}/schedules"), seed)
    tokens, wishes = _under_a_token(random.Random(f"{seed}/tokens"), wishes)
    markets, wishes = _at_an_auction(random.Random(f"{seed}/markets"), wishes)
    markets, wishes = _under_a_cap(random.Random(f"{seed}/{CAPPED_NAME}"), markets, wishes)
    return Scenario(
        tuple(sorted(wishes, key=lambda pair: pair[0])),
        limits,
        tick_s,
        tokens=tokens,
        markets=markets,
        uncertified=_without_certificate(random.Random(f"{seed}/uncertified"), markets),
    )


def _without_certificate(rng: random.Random, markets: tuple[str, ...]) -> dict[str, Decimal]:
    """In some seeds one market has none, or none has one."""
    if rng.random() >= WITHOUT_CERTIFICATE:
        return {}
    allowance = rng.choice((D("0.60"), D(1), D(2), D(5)))
    return dict.fromkeys(markets if rng.random() < 0.5 else markets[:1], allowance)


def _at_an_auction(
    rng: random.Random, wishes: list[tuple[float, Wish]]
) -> tuple[tuple[str, ...], list[tuple[float, Wish]]]:
    """In some seeds: an auction, where no price on demand bounds a bid, so that most jobs say what they pay."""
    if rng.random() >= WITH_AN_AUCTION:
        return TWO_MARKETS, wishes
    markets = rng.choice((("vastai", "mithril"), ("mithril", "runpod"), ("mithril", "runpod")))
    return markets, _bounded(rng, wishes)


def _under_a_cap(
    rng: random.Random, markets: tuple[str, ...], wishes: list[tuple[float, Wish]]
) -> tuple[tuple[str, ...], list[tuple[float, Wish]]]:
    """In some seeds: caps, in the place of another market, or as a third beside an auction."""
    if rng.random() >= UNDER_A_CAP:
        return markets, wishes
    if "mithril" in markets:
        return (*markets, "nebius"), wishes
    return rng.choice((("vastai", "nebius"), ("nebius", "runpod"), ("nebius", "runpod"))), _bounded(rng, wishes)


def _bounded(rng: random.Random, wishes: list[tuple[float, Wish]]) -> list[tuple[float, Wish]]:
    """Most of the jobs say what they pay at most."""
    bounded: list[tuple[float, Wish]] = []
    for moment_s, wish in wishes:
        if isinstance(wish, Submit | Repeat):
            most = rng.choice((D("0.25"), D("0.40"), D("0.60"), None))
            wish = replace(wish, spec=replace(wish.spec, max_bid=most))
        bounded.append((moment_s, wish))
    return bounded


def _with_array(rng: random.Random, wishes: list[tuple[float, Wish]]) -> list[tuple[float, Wish]]:
    """In some seeds: one job has tasks, each with a part of its work."""
    if rng.random() >= OF_ARRAYS:
        return wishes
    chosen = rng.choice([at for at, (_, wish) in enumerate(wishes) if isinstance(wish, Submit)])
    moment_s, wish = wishes[chosen]
    assert isinstance(wish, Submit)
    count = rng.randint(2, 7)
    work = timedelta(minutes=rng.choice((10, 20, 60)))
    array = ArraySpec(
        count,
        parallel=rng.randint(1, 4),
        succeed_at=rng.choice((D(1), D(1), D("0.6"))),
        max_failures=rng.choice((None, None, 2)),
    )
    estimate = None if wish.spec.work_estimate is None else work
    spec = replace(wish.spec, array=array, run=f"work {round(work.total_seconds())}", work_estimate=estimate)
    return [*wishes[:chosen], (moment_s, replace(wish, spec=spec)), *wishes[chosen + 1 :]]


def _with_follower(rng: random.Random, seed: int, wishes: list[tuple[float, Wish]]) -> list[tuple[float, Wish]]:
    """In some seeds with an array: another follows it task by task."""
    arrays = [(begins_s, wish) for begins_s, wish in wishes if isinstance(wish, Submit) and wish.spec.array is not None]
    if not arrays or rng.random() >= FOLLOWED:
        return wishes
    ((begins_s, first),) = arrays
    array = first.spec.array
    assert array is not None, "it was chosen so"
    own = replace(array, parallel=rng.randint(1, 4), succeed_at=rng.choice((D(1), array.succeed_at)), max_failures=None)
    after = (After(first.job_id, On.SAME_TASK),)
    spec = replace(a_spec(timedelta(minutes=rng.choice((5, 20, 60)))), array=own, after=after)
    wish = Submit(f"01JOB{seed % 10**9:09d}{3:012d}", spec)
    return [*wishes, (begins_s + rng.uniform(1, HOUR_S), wish)]


def _in_a_row(rng: random.Random, wishes: list[tuple[float, Wish]]) -> list[tuple[float, Wish]]:
    """In some seeds: each job but the first waits for some of those before it, one way or another."""
    if rng.random() >= IN_A_ROW:
        return wishes
    made: list[tuple[float, Wish]] = []
    earlier: list[str] = []
    for moment_s, wish in wishes:
        if isinstance(wish, Submit):
            named = [job_id for job_id in earlier if rng.random() < 0.7]
            after = tuple(After(job_id, rng.choice((On.OK, On.OK, On.ANY, On.FAIL))) for job_id in named)
            earlier.append(wish.job_id)
            if after and not wish.spec.after:
                wish = replace(wish, spec=_due_after(replace(wish.spec, after=after), moment_s))
        made.append((moment_s, wish))
    return made


def _again_and_again(rng: random.Random, seed: int) -> list[tuple[float, Wish]]:
    """In some seeds: a schedule of short jobs, which is perhaps paused for some hours."""
    if rng.random() >= AGAIN_AND_AGAIN:
        return []
    schedule_id = f"01SCH{seed % 10**9:09d}{0:012d}"
    budget, is_monthly = rng.choice((None, D("0.60"), D(1), D(6))), rng.random() < 0.4
    cadence = Cadence(
        f"{rng.randrange(60)} */{rng.choice((1, 2, 3, 6))} * * *",
        overlap=rng.choice(list(Overlap)),
        catch_up=rng.random() < 0.5,
        count=rng.choice((None, None, 3)),
        budget=budget,
        is_monthly=is_monthly and budget is not None,
    )
    work = timedelta(minutes=rng.choice((5, 20, 60, 120)))
    spec = a_spec(
        work,
        budget=rng.choice((None, D("0.50"))),
        due_within=rng.choice((None, work * 2 + timedelta(hours=1))),
        schedule=cadence,
    )
    arrays = random.Random(f"{seed}/firings of arrays")
    if arrays.random() < FIRES_ARRAYS:
        spec = replace(spec, array=ArraySpec(arrays.randint(2, 4), parallel=arrays.randint(1, 3)))
    begins_s = rng.uniform(60, 2 * HOUR_S)
    wishes: list[tuple[float, Wish]] = [(begins_s, Repeat(schedule_id, spec))]
    if rng.random() < 0.3:
        paused_s = begins_s + rng.uniform(HOUR_S, 10 * HOUR_S)
        wishes.append((paused_s, MoveSchedule(schedule_id, ScheduleStatus.PAUSED)))
        wishes.append((paused_s + rng.uniform(60, 8 * HOUR_S), MoveSchedule(schedule_id, ScheduleStatus.ACTIVE)))
    return wishes


def _due_after(spec: JobSpec, begins_s: float) -> JobSpec:
    """Its deadline counts from the end of those that it waits for."""
    return spec if spec.deadline is None else replace(spec, deadline=None, due_within=spec.deadline - at(begins_s))


def _under_a_token(
    rng: random.Random, wishes: list[tuple[float, Wish]]
) -> tuple[tuple[Token, ...], list[tuple[float, Wish]]]:
    """In some seeds: a token with an allowance, most of the jobs as its own, and perhaps its end."""
    if rng.random() >= UNDER_A_TOKEN:
        return (), wishes
    ends_at = at(rng.uniform(2 * HOUR_S, LENGTH_S)) if rng.random() < 0.3 else None
    allowance, is_monthly = rng.choice((D("0.60"), D(1), D(2), D(6))), rng.random() < 0.4
    token = Token(1, "ci", "0" * 64, Scope.SUBMIT, False, (), at(0), ends_at, None, allowance, is_monthly)
    owned_kinds = (Submit, Repeat)
    owned = [
        (moment_s, replace(wish, owner=token.owner) if isinstance(wish, owned_kinds) and rng.random() < 0.8 else wish)
        for moment_s, wish in wishes
    ]
    if rng.random() < 0.2:
        owned.append((rng.uniform(HOUR_S, 20 * HOUR_S), Revoke(token.number)))
    return (token,), owned


def _a_hold(rng: random.Random) -> timedelta | None:
    """For how long the machine is to stay on which the job's last attempt fails."""
    return rng.choice((None, timedelta(minutes=20), timedelta(hours=1), timedelta(hours=5), timedelta(hours=24)))


def _a_job(rng: random.Random, needs: random.Random, work: timedelta, begins_s: float) -> JobSpec:
    hours = D(round(work.total_seconds())) / 3600
    budget = rng.choice((None, D("0.8"), hours * D("0.15") + D("0.4"), hours * D("0.6") + D(1)))
    deadline = at(begins_s) + work * rng.choice((1.5, 3.0)) + timedelta(hours=1) if rng.random() < 0.3 else None
    return a_spec(
        work,
        budget=None if budget is None else budget.quantize(D("0.01")),
        deadline=deadline,
        spot_policy=rng.choice((SpotPolicy.AUTO, SpotPolicy.AUTO, SpotPolicy.SPOT, SpotPolicy.ON_DEMAND)),
        checkpoint_interval=timedelta(minutes=rng.choice((5, 10, 20))),
        work_estimate=rng.choice((work, work, None)) if deadline is None else work,
        cancel_when_exhausted=rng.random() < 0.2,
        setup=needs.choice(("", "", "make")),
        inputs=needs.choice(((), (), (("data", "https://files.example/data"),))),
    )


def draw_pools(rng: random.Random) -> list[Host]:
    """Of Mithril: kinds of machine in a region."""
    pools = []
    for number in range(3):
        floor = D(rng.randint(8, 30)) / 100
        machine_id, room = f"us-sim{number + 1}-a/it_{number + 1}", rng.choice((2, 4, 8))
        pools.append(Host(machine_id, "", GPU, floor, floor * 3, D(0), D(0), room=room))
    return pools


def draw_capped(rng: random.Random) -> list[Host]:
    """Of Nebius: kinds of machine in a region; two of them are sold in one project."""
    found = []
    for place in ("eu-sim1/gpu-rtx4090", "eu-sim1/gpu-rtx4090-a", "us-sim1/gpu-rtx4090"):
        floor, room = D(rng.randint(50, 220)) / 1000, rng.choice((2, 4, 8))
        found.append(Host(f"{place}/1gpu-16vcpu-64gb", "", GPU, floor, floor * 3, D("0.072"), D(0), room=room))
    return found


def draw_hosts(rng: random.Random) -> tuple[list[Host], list[Host]]:
    """Of vast.ai and of RunPod."""
    dear_traffic = rng.random() < 0.3
    vastai = []
    for number in range(6):
        on_demand = D(rng.randint(280, 520)) / 1000
        floor = (on_demand * rng.randint(30, 60) / 100).quantize(D("0.001"))
        upload = D("0.004") if dear_traffic else D(0)
        storage = D(rng.choice(("0.10", "0.15", "0.30")))
        vastai.append(Host(str(101 + number), str(201 + number // 2), GPU, floor, on_demand, storage, upload))
    runpod = []
    for cloud, on_demand in (("SECURE", D("0.59")), ("COMMUNITY", D("0.34"))):
        floor = (on_demand * rng.randint(40, 60) / 100).quantize(D("0.001"))
        runpod.append(Host(cloud, f"host-{cloud.lower()}", GPU, floor, on_demand, D("0.10"), D(0), room=4))
    return vastai, runpod
