"""The plan for a virtual machine that goes from one task of an array to the next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.lease import TaskUse
from autopilot.domain.params import Params
from autopilot.engine.hosts import Hosts
from autopilot.service.wiring import AgentBootstrap
from tests.builders import START, a_job, a_lease, capabilities


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
