"""What machines read of themselves, in the answers of the API."""

from __future__ import annotations

import json
from datetime import timedelta

from autopilot import render
from autopilot.books.reconciliation import READINGS_PER_ANSWER, instance
from autopilot.domain.params import Params
from autopilot.domain.readings import Gpu, MachineReading, Readings, Recognised
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import START, a_job, a_lease

TAKEN = Readings((Gpu(0.97, 21, 24), Gpu()), 12, 3.1, 2520.0, Recognised("bar", 45, 0.45, 0.9, 660.0, 0.2))


def test_the_newest_stand_with_the_lease() -> None:
    shown = json.loads(json.dumps(render.lease(a_lease(readings=TAKEN, stalled_since=START))))
    assert shown["stalled_since"] == START.isoformat()
    assert shown["readings"] == {
        **{"at": START.isoformat(), "disk_free": 12, "load": 3.1, "still_s": 2520.0},
        "recognised": {"form": "bar", "step": 45, "fraction": 0.45, "confidence": 0.9, "left_s": 660.0, "seen": 0.2},
        "gpus": [
            {"busy": 0.97, "memory_used": 21, "memory_total": 24},
            {"busy": None, "memory_used": None, "memory_total": None},
        ],
    }
    assert render.lease(a_lease())["readings"] is None


async def test_of_a_machine_s_history_the_newest_are_answered_oldest_first() -> None:
    store = MemoryStore()
    points = [
        MachineReading("lease-1", START + timedelta(minutes=5 * n), 0.97, 0.875, 12, 3.1, n / 1000) for n in range(300)
    ]
    async with store.transaction() as uow:
        await uow.jobs.save(a_job(a_lease()))
        await uow.machine_readings.add(points)
    async with store.snapshot() as uow:
        (life,) = (await instance(uow, "lease-1", START, Params()))["instances"]
    shown = json.loads(json.dumps(life["readings"]))
    assert len(shown) == READINGS_PER_ANSWER < 300
    assert shown[-1] == {
        **{"at": points[-1].at.isoformat(), "gpu_busy": 0.97, "gpu_memory_share": 0.875},
        **{"disk_free": 12, "load": 3.1, "progress": 0.299},
    }
    assert [point["at"] for point in shown] == sorted(point["at"] for point in shown)
