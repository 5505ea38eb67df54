"""What a waiting job says of itself while the engine runs: the newest numbers now, and few rows in the ledger."""

from __future__ import annotations

import pytest

from autopilot.answers.codec import from_json
from autopilot.answers.jobs import Job, Why
from autopilot.answers.models.jobs import ListQuery
from autopilot.policy.wait import REMOVED
from autopilot.words import reasons
from tests.integration.engine.engine_world import JOB, D, World

BELOW_ALL = JOB + '[spot]\npolicy = "spot"\nmax_price = "$0.05"\n'
SPOT_ONLY = JOB + '[spot]\npolicy = "spot"\n'


def set_floors(world: World, floor: str) -> None:
    for machine in world.market.machines.values():
        if machine.spec.gpu_name == "RTX 4090":
            world.market.set_floor(machine.spec.machine_id, D(floor) + machine.spec.machine_id % 7 * D("0.001"))


async def why(world: World) -> Why:
    return from_json(Why, await world.jobs.why(world.job_id, limit=100))


async def test_a_job_whose_max_price_is_below_all_floors_says_both_prices(world: World) -> None:
    set_floors(world, "0.200")
    await world.submit(BELOW_ALL, accept_any=True)
    assert (await why(world)).job.waiting is None, "no tick has seen it"
    await world.tick(40)
    body = await why(world)
    told = reasons.tell_wait(body.job)
    assert told[0].startswith("looked for 1×RTX 4090, 20 GB of disk, verified hosts, spot only: ")
    assert told[0].endswith("none match")
    assert "above your max_price: cheapest floor $0.20" in told[1]
    assert told[1].endswith("your max_price $0.05/h")
    assert len(body.decisions) == 1, "a wait is recorded once, not at every tick"
    assert [note.topic for note in body.decisions[0].notes].count(REMOVED) == len(told) - 1

    set_floors(world, "0.100")
    await world.tick(12, apart_s=60)
    body = await why(world)
    assert "cheapest floor $0.10" in reasons.tell_wait(body.job)[1], "the newest numbers"
    assert len(body.decisions) == 1
    (listed,) = from_json(list[Job], (await world.jobs.overview(ListQuery()))["jobs"])
    assert listed.waiting == body.job.waiting

    set_floors(world, "0.040")
    await world.until_running()
    assert (await why(world)).job.waiting is None


async def test_the_market_s_answer_is_recorded_with_the_decision(world: World) -> None:
    fitting = [m for m in world.market.machines.values() if m.spec.gpu_name == "RTX 4090"]
    chosen = next(m for m in fitting if m.spec.gpu_count == 1)
    for machine in fitting:
        world.market.set_floor(machine.spec.machine_id, D("0.120") if machine is chosen else machine.spec.on_demand)
    world.market.add_rival(chosen.spec.machine_id, chosen.spec.gpu_ids, D("0.160"))
    await world.submit(SPOT_ONLY)
    await world.until_running()
    first, *others = reversed((await why(world)).decisions)
    assert first.actions[0].numbers["bid"] == "0.126"
    assert [answer.name for answer in first.answers] == ["lease.refused"]
    assert reasons.tell_answer(first.answers[0], "0.126").startswith("the market refused $0.126/h: ")
    assert [answer.name for decision in others for answer in decision.answers][-1] == "lease.acquired"


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ('vram = "30GB"', "with too little GPU memory: the nearest has 24.6 GB, the job needs 30 GB"),
        ('disk = "9000GB"', "with too little disk: the nearest has "),
        ('gpu = "B200:1"', ""),
    ],
)
async def test_a_search_that_brings_nothing_says_which_wish_is_too_much(world: World, wish: str, told: str) -> None:
    key = wish.split()[0]
    kept = [line for line in JOB.splitlines() if not line.startswith(f"{key} =")]
    await world.submit("\n".join(kept).replace("[resources]", f"[resources]\n{wish}"), accept_any=True)
    await world.tick(2)
    body = await why(world)
    said = reasons.tell_wait(body.job)
    assert said[0].endswith(": no offers")
    assert body.job.reason == "waiting_for_offer"
    if told:
        assert said[1].startswith("without the other requirements: ")
        assert told in said[2]
    else:
        assert said[1].startswith("no market offers these GPUs")
