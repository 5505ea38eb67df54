"""The plan for a virtual machine that goes from one task of an array to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.lease import TaskUse
from autopilot.domain.params import Params
from autopilot.engine.hosts import Hosts
from autopilot.ports.blobs import BlobUnavailable
from autopilot.service.wiring import AgentBootstrap
from tests.builders import START, a_job, a_lease, capabilities

MINUTE = timedelta(minutes=1)


async def test_its_agent_looks_for_orders_where_those_of_the_first_task_lie(tmp_path: Path) -> None:
    blobs = LocalBlobStore(tmp_path, b"k" * 32, "http://127.0.0.1:1")
    market: Any = SimpleNamespace(capabilities=replace(capabilities(), boots_vm=True))
    no_logins: Any = None
    hosts = Hosts({"vastai": market}, await AgentBootstrap.prepare(blobs), blobs, no_logins, Params())
    lease = replace(a_lease(), job_id="second", uses=(TaskUse("first", START), TaskUse("second", START)))
    plan = await hosts.plan(replace(a_job(lease), id="second"), lease)
    assert plan is not None
    assert f"jobs/first/{lease.id}/orders.json" in plan.start
    assert f"jobs/second/{lease.id}/" in plan.report_url, "only the present task's place may be written"


class StoreThatFails:
    """It has what it is given, and is down until it is up."""

    def __init__(self) -> None:
        self.is_down = False
        self.said: bytes | None = None

    async def get(self, key: str) -> bytes | None:
        if self.is_down:
            raise BlobUnavailable("down")
        return self.said


async def test_a_store_that_is_down_says_nothing_of_a_machine_that_is_not_heard(tmp_path: Path) -> None:
    market: Any = SimpleNamespace(capabilities=replace(capabilities(), boots_vm=True))
    store, nothing = StoreThatFails(), cast(Any, None)
    hosts = Hosts({"vastai": market}, nothing, cast(Any, store), nothing, Params())
    lease = a_lease()
    for minute in (0, 1):
        assert await hosts.read(a_job(lease), lease, START + minute * MINUTE) is None
        assert hosts.unheard_since(lease.id) == START
    store.is_down = True
    with pytest.raises(BlobUnavailable):
        await hosts.read(a_job(lease), lease, START + 2 * MINUTE)
    assert hosts.unheard_since(lease.id) is None
    store.is_down = False
    await hosts.read(a_job(lease), lease, START + 3 * MINUTE)
    assert hosts.unheard_since(lease.id) == START + 3 * MINUTE
    store.said = b"not even a report"
    await hosts.read(a_job(lease), lease, START + 4 * MINUTE)
    assert hosts.unheard_since(lease.id) is None
