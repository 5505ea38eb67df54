from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.virtual.loop import Deadlock, Process, VirtualLoop


def a_loop(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(random.Random(seed))  # type: ignore[abstract]


def played(loop: VirtualLoop, main: Callable[[], Awaitable[object]]) -> object:
    return loop.run_until_complete(main())


def order_of_ten(seed: int) -> list[int]:
    ran: list[int] = []

    async def main() -> None:
        async def one(number: int) -> None:
            ran.append(number)

        await asyncio.gather(*(one(number) for number in range(10)))

    played(a_loop(seed), main)
    return ran


def test_the_seed_and_nothing_else_orders_what_is_ready() -> None:
    orders = [order_of_ten(seed) for seed in range(5)]
    assert orders == [order_of_ten(seed) for seed in range(5)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == list(range(10)) for order in orders)


def test_time_jumps_to_the_next_timer() -> None:
    loop = a_loop()

    async def main() -> float:
        await asyncio.sleep(3600)
        await asyncio.sleep(0.25)
        return loop.time()

    assert played(loop, main) == 3600.25


def test_nothing_left_to_do_is_an_error() -> None:
    loop = a_loop()

    async def main() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        played(loop, main)


def test_a_killed_process_never_runs_again_and_cleans_nothing_up_later() -> None:
    loop = a_loop()
    ran: list[str] = []

    async def child() -> None:
        await asyncio.sleep(5)
        ran.append("child")

    async def daemon() -> None:
        begun = asyncio.create_task(child())
        try:
            await asyncio.sleep(10)
            ran.append("daemon")
        finally:
            await asyncio.sleep(1)
            ran.append("late")
        await begun

    async def main() -> None:
        process = Process("daemon")
        loop.start(process, daemon())
        await asyncio.sleep(2)
        loop.kill(process)
        await asyncio.sleep(100)

    played(loop, main)
    assert ran == []


def test_a_frozen_process_goes_on_where_it_was() -> None:
    loop = a_loop()
    ran: list[float] = []

    async def daemon() -> None:
        while True:
            await asyncio.sleep(1)
            ran.append(loop.time())

    async def main() -> None:
        process = Process("daemon")
        loop.start(process, daemon())
        await asyncio.sleep(2.5)
        loop.freeze(process)
        await asyncio.sleep(60)
        loop.thaw(process)
        await asyncio.sleep(1.7)
        loop.kill(process)

    played(loop, main)
    assert ran == [1, 2, 62.5, 63.5]


def test_what_is_sent_to_a_thread_is_done_at_once_or_never() -> None:
    loop = a_loop()

    async def main() -> tuple[int, bool]:
        done = await asyncio.to_thread(lambda: 7)
        loop.is_offloaded_done = lambda: False
        try:
            await asyncio.wait_for(asyncio.to_thread(lambda: 8), 5)
        except TimeoutError:
            return done, True
        return done, False

    assert played(loop, main) == (7, True)
