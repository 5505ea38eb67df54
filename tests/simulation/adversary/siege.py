"""One daemon, two markets and many clients at once, each of them with a token of a dollar; faults and all."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path

from autopilot.api.bearer import hash_token
from autopilot.domain.job import JobStatus
from autopilot.domain.token import Scope, Token
from autopilot.policy.guard import Limits
from tests.simulation.adversary.calls import Call
from tests.simulation.adversary.served import SECRETS, ServedDaemon, is_in_call
from tests.simulation.adversary.sessions import SESSIONS, Client, Session
from tests.simulation.adversary.wire import Heard, Line
from tests.simulation.checks.allowances import Allowances
from tests.simulation.ground.books import dollars
from tests.simulation.ground.machines import Box
from tests.simulation.ground.scenario import HOUR_S, Move, Scenario
from tests.simulation.runs.run import CONVERGES_S, Play, Result, run
from tests.simulation.runs.world import World
from tests.simulation.virtual.clock import at

ALLOWANCE = Decimal(1)
A_CENT = Decimal("0.01")
CLIENTS = 20
"""Sequences of calls in one siege."""
LASTS_S = 2.5 * HOUR_S
GOES_ON_S = 20 * HOUR_S
"""After the last call, for abandoned machines: until the dollar of the cheapest of them is spent."""
LEFT_ALONE = 0.15
"""Share of the sieges that are played to that end; in the others an admin cancels all jobs."""
BEFORE_MONTH_END_S = 29 * HOUR_S
"""Runs begin on the 28th of February of a leap year at 18:00; an hour later the month ends."""
MOST_KILLS = 6
"""Beyond those of the catalogue of faults; the daemon is started again after 20 s."""
ROOT = "aptk_root"
OFF = ("E9",)
"""A ledger that is put back knows neither tokens nor what they have spent."""
ROOM = 8
"""GPUs of each host: there is enough for everybody."""


@dataclass(slots=True)
class Siege:
    """What came of it."""

    seed: int
    sequences: int = 0
    calls: int = 0
    jobs: int = 0
    machines: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    most: Decimal = Decimal(0)
    """Dollars that one token has cost in one period of its allowance, excuses apart."""
    spent: Decimal = Decimal(0)
    """By all of them."""
    result: Result | None = None

    @property
    def found(self) -> Iterator[str]:
        assert self.result is not None, "asked for in the end"
        return (f"{each.checker} at {each.at_s:.0f} s: {each.what}" for each in self.result.violations)

    @property
    def excused(self) -> Decimal:
        """Dollars that machines cost after their market was ordered to end them, or while no order was possible."""
        return Decimal(0) if self.result is None else sum(self.result.excused.values(), Decimal(0))


def lay_siege(
    seed: int,
    *,
    clients: int = CLIENTS,
    lasts_s: float = LASTS_S,
    bug: str | None = None,
    stop_at_first: bool = False,
) -> Siege:
    """One seed. ``lasts_s``: how long clients call and faults are injected. ``bug``: planted meanwhile."""
    rng = random.Random(f"{seed}/siege")
    begins_s = BEFORE_MONTH_END_S - rng.uniform(0, HOUR_S) if rng.random() < 0.3 else 0.0
    limits = Limits(None, None, Decimal(1000), 1000, 3, 1000)
    kills = tuple((begins_s + rng.uniform(0, lasts_s), "kill") for _ in range(rng.randint(0, MOST_KILLS)))
    scenario = Scenario((), limits, rng.choice((30.0, 60.0)), length_s=begins_s + lasts_s, acts=kills)
    siege = Siege(seed)
    with tempfile.TemporaryDirectory() as scratch:
        attack = _Attack(rng, siege, Path(scratch), begins_s, lasts_s, clients)
        siege.result = run(
            seed, scenario, off=OFF, bug=bug, stop_at_first=stop_at_first, arrange=attack.arrange, play=attack.play
        )
    return siege


class _Attack:
    """What the clients of one siege do."""

    def __init__(
        self, rng: random.Random, siege: Siege, scratch: Path, begins_s: float, lasts_s: float, clients: int
    ) -> None:
        self._rng = rng
        self._siege = siege
        self._scratch = scratch
        self._begins_s, self._lasts_s = begins_s, lasts_s
        self._number = clients
        self._lines: list[Line] = []
        self._all_jobs: list[str] = []

    def arrange(self, world: World) -> None:
        world.loop.is_offloaded_done = is_in_call
        world.make_daemon = partial(ServedDaemon, scratch=self._scratch, lines=self._lines)
        root = Token(1, "root", hash_token(ROOT), Scope.ADMIN, False, (), at(0), None)
        world.committed["tokens"] = {1: root}
        for market in world.markets.values():
            for host in market.hosts.values():
                host.room = ROOM

    async def play(self, play: Play) -> None:
        world = play.world
        await asyncio.sleep(self._begins_s)
        play.begin()
        await asyncio.sleep(5)
        self._check = partial(self._look_at_answer, world)
        tasks = [asyncio.ensure_future(self._client(world, number)) for number in range(self._number)]
        try:
            await play.watch(self._lasts_s)
            while not all(task.done() for task in tasks):
                await play.watch(60.0)
            for task in tasks:
                task.result()
            await self._expect_no_session(play)
        finally:
            for task in tasks:
                task.cancel()
            self._sum_up(world)

    async def _client(self, world: World, number: int) -> None:
        """One sequence, from the token that an admin makes for it to the last call."""
        rng = random.Random(f"{world.seed}/client/{number}")
        await asyncio.sleep(rng.uniform(0, self._lasts_s / 4))
        secret = await self._token(rng, f"a{number}")
        session: Session = rng.choice(SESSIONS)
        client = Client(secret, rng, self._lines, self._all_jobs, self._check)
        revoking = asyncio.ensure_future(self._revoke(rng, f"a{number}")) if rng.random() < 0.2 else None
        await session(client)
        self._siege.sequences += 1
        self._siege.calls += client.asked
        if revoking is not None:
            await revoking

    async def _token(self, rng: random.Random, name: str) -> str:
        said: dict[str, object] = {
            "name": name,
            "scope": "submit",
            "allow": rng.choice((f"${ALLOWANCE}", f"${ALLOWANCE}", f"${ALLOWANCE}/month")),
            "expires": rng.choice(("", "", "30m", "2h", "30d")),
            "secrets": ["hf"] if rng.random() < 0.3 else [],
            "ask_above": rng.choice(("", "", "$0.50")),
        }
        heard = await self._as_root("/v1/tokens", said)
        return str(heard.json["secret"])

    async def _revoke(self, rng: random.Random, name: str) -> None:
        await asyncio.sleep(rng.uniform(60, self._lasts_s / 2))
        await self._as_root(f"/v1/tokens/{name}/revoke", {"park": rng.random() < 0.3})

    async def _as_root(self, path: str, said: dict[str, object]) -> Heard:
        """An admin asks until it is done, or was done before."""
        headers = {"Authorization": f"Bearer {ROOT}"}
        while True:
            body = json.dumps(said).encode()
            heard = await self._lines[-1].call("POST", path, headers, body) if self._lines else None
            if heard is not None and heard.status < 500 and (heard.status < 400 or not path.endswith("/tokens")):
                return heard
            if heard is not None and heard.status == 422:
                said = said | {"name": f"{said['name']}b"}  # its answer was lost, and with it that token's secret
            await asyncio.sleep(20)

    def _look_at_answer(self, world: World, call: Call, heard: Heard) -> None:
        self._siege.answers[heard.status] += 1
        if heard.status >= 500 and heard.status != 503 and heard.json.get("reason") != "no_answer":
            world.check.add_violation("S13", f"{call.method} {call.path[:80]} is answered by {heard.status}")
        for name, value in SECRETS.items():
            if value.encode() in heard.body:
                world.check.add_violation("S9", f"{call.method} {call.path[:80]} tells the secret {name}")
        said = heard.json
        if heard.status == 201 and isinstance(said.get("job"), dict):
            self._all_jobs.append(said["job"]["id"])

    async def _expect_no_session(self, play: Play) -> None:
        """Calls and faults are over. What runs ends by itself, at or below its token's allowance."""
        world = play.world
        play.events.calm()
        await play.daemon_is_back()
        await play.watch(CONVERGES_S)
        if self._rng.random() < LEFT_ALONE:
            await self._left_alone(play)
        for job in world.committed.get("jobs", {}).values():
            if not job.status.is_final:
                world.wish(Move(job.id, JobStatus.CANCELLING))
        await play.end()

    async def _left_alone(self, play: Play) -> None:
        world = play.world
        end_s = world.now_s + GOES_ON_S
        while world.now_s < end_s and any(box.job_id for box in world.boxes()):
            await play.watch(60.0)
        for box in world.boxes():
            if box.job_id:
                world.check.add_violation("L1", f"{box.key} runs on although its token's dollar is spent")

    def _sum_up(self, world: World) -> None:
        siege = self._siege
        self._check_excuses(world)
        spent = list(Allowances(world, world.check.add_violation).spent())
        siege.most = max((amount for _, _, amount in spent), default=Decimal(0))
        siege.spent = sum((amount for _, _, amount in spent), Decimal(0))
        siege.jobs = len(world.committed.get("jobs", {}))
        siege.machines = sum(1 for meter in world.books.meters.values() if meter.job_id)

    def _check_excuses(self, world: World) -> None:
        """No machine is excused for more than it can cost from the fault on that was injected into its end."""
        for market in world.markets.values():
            for box in (*market.past.values(), *market.boxes.values()):
                since_s = _fault_s(box)
                until_s = box.gone_s if box.is_gone else world.now_s
                # One that is paused may outlast an outage of the daemon, and run again.
                outages = [min(end_s, since_s) - max(begin_s, box.created_s) for begin_s, end_s in world.outages]
                seconds = max(until_s - since_s, 0.0) + sum(max(each, 0.0) for each in outages)
                bound = (box.highest_rate + box.storage_rate) * Decimal(seconds) / 3600
                # What it sends is billed when it has arrived, which may be after that.
                bound += sum(dollars(amount) for (kind, _), amount in box.meter.lines.items() if kind == "bwu")
                if dollars(box.meter.excused) > bound + A_CENT / 100:
                    excused = dollars(box.meter.excused)
                    world.check.add_violation("S27", f"{box.key} is excused for {excused:.6f} of {bound:.6f}")


def _fault_s(box: Box) -> float:
    """When what excuses it began: its create landed late, its destroy was sent, its user took it, its permit ended."""
    if box.is_late:
        return box.created_s
    told = (at_s for at_s in (box.destroy_sent_s, box.relabelled_s) if at_s is not None)
    return min((*told, box.permit_until_s))
