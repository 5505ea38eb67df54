"""Sequences of calls that want more than their token may have, or that know no end. Each is one client's whole life."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.adversary import calls
from tests.simulation.adversary.calls import Call, JobFile
from tests.simulation.adversary.wire import Heard, Line

LOST, HANGS_UP = 0.05, 0.05
"""Of all calls: those whose answer never arrives, and those whose caller hangs up soon after."""


@dataclass(slots=True)
class Client:
    """The holder of one token."""

    secret: str
    rng: random.Random
    lines: Sequence[Line]
    """The newest daemon's last."""
    others: Sequence[str]
    """Ids of jobs that are not this client's."""
    tell: Callable[[Call, Heard], None]
    mine: list[str] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    asked: int = 0

    async def send(self, call: Call) -> Heard | None:
        """None: no answer came."""
        self.asked += 1
        headers = {"Authorization": f"Bearer {self.secret}"}
        if call.key:
            headers["Idempotency-Key"] = call.key
        luck = self.rng.random()
        hangs_up = self.rng.uniform(0, 0.05) if luck < HANGS_UP else None
        heard = await self.lines[-1].call(call.method, call.path, headers, call.body, hangs_up_after_s=hangs_up)
        if heard is not None:
            self.tell(call, heard)
        if heard is None or luck > 1 - LOST:
            return None
        said: dict[str, Any] = heard.json
        if heard.status == 201 and isinstance(said.get("job"), dict):
            self.mine.append(said["job"]["id"])
        if said.get("reason") == "confirm_first":
            self.plans.append(said["plan"])
        return heard

    async def wait(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(least_s, most_s))


Session = Callable[[Client], Awaitable[None]]


async def submit_for_ever(client: Client) -> None:
    """One job after the other, each of them allowed to cost all that there is."""
    job = replace(calls.draw_job(client.rng), total="$1", more="", work_s=10**6)
    for number in range(client.rng.randint(3, 10)):
        await client.send(calls.submit(replace(job, name=f"j{number}")))
        await client.wait(0, client.rng.choice((1.0, 60.0, 900.0)))


async def retry_for_ever(client: Client) -> None:
    """Restarts what fails at once, under the same key and under others."""
    job = JobFile(total="$0.60", work_s=client.rng.choice((60, 1200)))
    for number in range(client.rng.randint(3, 8)):
        key = f"k{number % 3}"
        for _ in range(client.rng.randint(1, 4)):
            await client.send(calls.submit(job, again=True, key=key))
        await client.send(calls.submit(replace(job, total="$0.90"), again=True, key=key))
        await client.wait(1, 900)


async def raise_for_ever(client: Client) -> None:
    """One job whose limits are taken away again and again while it runs."""
    await client.send(calls.submit(JobFile(total="$0.30", work_s=10**6)))
    for _ in range(client.rng.randint(4, 15)):
        if client.mine:
            await client.send(calls.draw_change(client.rng, client.mine[-1]))
            await client.send(calls.a_call("PATCH", f"/v1/jobs/{client.mine[-1]}", {"budget": "$50000"}))
            await client.send(calls.a_call("POST", f"/v1/jobs/{client.mine[-1]}/resume"))
        await client.wait(1, 900)


async def stop_and_go(client: Client) -> None:
    """Releases machines and rents them again, repeatedly."""
    for _ in range(client.rng.randint(1, 4)):
        await client.send(calls.submit(replace(calls.draw_job(client.rng), total="$1", more="", work_s=10**6)))
    for _ in range(client.rng.randint(4, 15)):
        for job_id in client.mine[-3:]:
            what = client.rng.choice(("stop", "resume", "cancel", "release"))
            await client.send(calls.a_call("POST", f"/v1/jobs/{job_id}/{what}"))
        await client.wait(1, 600)
        if client.rng.random() < 0.3:
            await client.send(calls.submit(JobFile(total="$1", work_s=10**6)))


async def leave(client: Client) -> None:
    """Jobs that never end and are abandoned."""
    for number in range(client.rng.randint(1, 4)):
        await client.send(calls.submit(JobFile(name=f"left{number}", total="$1", work_s=10**7)))


async def anything(client: Client) -> None:
    for _ in range(client.rng.randint(8, 25)):
        await client.send(calls.draw_call(client.rng, client.mine, client.others, client.plans))
        await client.wait(0, client.rng.choice((0.1, 5.0, 300.0)))


async def all_at_once(client: Client) -> None:
    """Many calls on many connections in one moment: each of them sees the same money left."""
    for _ in range(client.rng.randint(1, 2)):
        jobs = [replace(calls.draw_job(client.rng), total="$1", more="", work_s=10**6) for _ in range(4)]
        await asyncio.gather(*(client.send(calls.submit(job)) for job in jobs))
        more = [calls.draw_call(client.rng, client.mine, client.others, client.plans) for _ in range(8)]
        await asyncio.gather(*(client.send(call) for call in more))
        await client.wait(1, 1800)


SESSIONS: tuple[Session, ...] = (
    submit_for_ever,
    retry_for_ever,
    raise_for_ever,
    stop_and_go,
    leave,
    anything,
    all_at_once,
)
