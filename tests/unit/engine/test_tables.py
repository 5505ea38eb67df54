"""A job keeps the table it has until a better one has been made; unused tables are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from threading import Event

import pytest

from autopilot.engine.tables import Tables
from tests.patience import PATIENCE_S


def serves(made: int, wanted: int) -> bool:
    """A table of so many rows serves where no more, and not far fewer, are wanted."""
    return 0 <= made - wanted < 10


@pytest.fixture
async def tables() -> AsyncIterator[Tables[int]]:
    of_rows: Tables[int] = Tables(lambda _: None, serves, 2)
    yield of_rows
    await of_rows.close()


async def test_a_table_is_there_once_it_is_made(tables: Tables[int]) -> None:
    tables.want("a", 20)
    assert tables.of("a") is None
    await tables.close()
    assert tables.of("a") == 20


async def test_the_old_table_serves_until_the_new_one_is_made_though_others_are_forgotten(tables: Tables[int]) -> None:
    tables.want("a", 20)
    await tables.close()
    assert tables.of("a") == 20
    tables.want("a", 40)
    tables.forget({"a"})
    assert tables.of("a") == 20
    await tables.close()
    tables.forget({"a"})
    assert tables.of("a") == 40


async def test_a_table_that_serves_is_shared(tables: Tables[int]) -> None:
    tables.want("a", 20)
    tables.want("b", 15)
    await tables.close()
    assert tables.of("b") == tables.of("a") == 20


async def test_no_more_than_that_many_at_once(tables: Tables[int]) -> None:
    for number, job in enumerate("abc"):
        tables.want(job, 100 * number)
    await tables.close()
    assert [tables.of(job) for job in "abc"] == [0, 100, None]
    tables.forget({"b", "c"})
    tables.want("c", 200)
    await tables.close()
    assert tables.of("c") == 200, "there is room again"


async def test_a_table_that_cannot_be_made_is_asked_for_again() -> None:
    fails = [True]

    def make(_: int) -> None:
        if fails:
            raise MemoryError(fails.pop())

    tables: Tables[int] = Tables(make, serves, 2)
    tables.want("a", 1)
    await tables.close()
    assert tables.of("a") is None
    tables.want("a", 1)
    await tables.close()
    assert tables.of("a") == 1


async def test_the_loop_goes_on_while_a_table_is_made() -> None:
    go_on = Event()
    tables: Tables[int] = Tables(lambda _: go_on.wait(PATIENCE_S), serves, 2)
    tables.want("a", 1)
    await asyncio.sleep(0)
    assert tables.of("a") is None
    go_on.set()
    await tables.close()
    assert tables.of("a") == 1
