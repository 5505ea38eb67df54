"""A market that boots virtual machines: what the engine sends, lends and believes. The machine's own part is played by
the objects that it would write; ``tests/integration/agent/test_vm_*`` boots real ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from autopilot.api.submissions import Sent
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.offer import DeadMan
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.start_faults import StartCause
from autopilot.host.user_data import MAX_USER_DATA_CHARS
from autopilot.mailbox.keys import heartbeat_key, host_key, orders_key, registry_login_key
from autopilot.mailbox.report_shapes import HostReport
from autopilot.planning.market_notes import tell_market
from autopilot.policy import budget
from tests.builders import capabilities
from tests.integration.engine.test_private_images import LOGIN, PASSWORD, Place, a_place

JOB = """
name = "train"
image = "ghcr.io/me/other:1"
run = "python train.py"
[resources]
gpu = "4090"
[work]
estimate = "10m"
"""


class Machine:
    """The newest of the job's."""

    def __init__(self, place: Place, job_id: str) -> None:
        self.place, self.job_id, self.lease_id, self.seq = place, job_id, "", 0

    async def lease(self) -> Lease:
        return (await self.place.job(self.job_id)).leases[-1]

    async def orders(self) -> Any:
        data = await self.blobs.get(orders_key(self.job_id, self.lease_id))
        return None if data is None else json.loads(data)

    async def login(self) -> bytes | None:
        data: bytes | None = await self.blobs.get(registry_login_key(self.job_id, self.lease_id))
        return data

    async def report(self, state: str, fault: str = "", detail: str = "", *, wants_login: bool = False) -> None:
        self.seq += 1
        report = HostReport(1, self.seq, state, fault, detail, wants_login)
        await self.blobs.put(host_key(self.job_id, self.lease_id), report.to_json())

    @property
    def blobs(self) -> Any:
        return self.place.engine._blobs


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place("vastai", tmp_path) as made:
        provider: Any = made.engine.watches["vastai"].provider
        provider.capabilities = replace(provider.capabilities, boots_vm=True)
        yield made


async def a_machine(place: Place, login: str = LOGIN) -> Machine:
    sent = [Sent(JOB + login, "job.toml")]
    made = await place.jobs.submissions.submit(sent, itemgetter(0), dry_run=False, owner=1000, again=True)
    machine = Machine(place, str(made["job"]["id"]))
    await place.tick(2)
    lease = await machine.lease()
    assert lease.state is LeaseState.ACTIVE
    machine.lease_id = lease.id
    return machine


@pytest.mark.slow
async def test_it_gets_user_data_without_a_secret_and_a_plan_in_its_orders(place: Place) -> None:
    machine = await a_machine(place)
    (contract,) = place.sandbox.market.live()
    text = contract.order.onstart or ""
    assert text.startswith("#!/bin/sh\n")
    assert len(text) <= MAX_USER_DATA_CHARS
    assert PASSWORD not in text
    assert dict(contract.order.env) == {}
    lease, plan = await machine.lease(), (await machine.orders())["host"]
    assert (plan["container"], plan["image"]) == (f"ap-{lease.id}", "ghcr.io/me/other:1")
    assert plan["start"].startswith("r=${AUTOPILOT_ROOT:-}")
    assert (plan["needs_login"], plan["login_url"], plan["num_gpus"]) == (True, "", 1)
    assert plan["env"] == {}
    assert plan["boot_s"] < place.engine.config.params.loading.timeout_s


@pytest.mark.slow
async def test_the_login_lies_in_the_store_only_while_the_machine_wants_it(place: Place) -> None:
    machine = await a_machine(place)
    assert await machine.login() is None
    await machine.report("pulling", wants_login=True)
    await place.tick(2)
    assert json.loads(await machine.login() or b"") == {
        "username": "me",
        "password": PASSWORD,
        "serveraddress": "ghcr.io",
    }
    assert "registry.json" in (await machine.orders())["host"]["login_url"]
    await machine.report("running")
    await place.tick(2)
    assert await machine.login() is None
    assert (await machine.orders())["host"]["login_url"] == ""
    await machine.report("pulling", wants_login=True)  # after a reboot on which the image was gone
    await place.tick(2)
    assert await machine.login() is not None
    await place.jobs.cancel(machine.job_id)
    await place.tick(4)
    assert await machine.login() is None, "of a machine that is over nothing is left"
    assert await machine.orders() is None


@pytest.mark.slow
async def test_a_registry_that_refuses_parks_the_job_with_its_words(place: Place) -> None:
    machine = await a_machine(place)
    await machine.report("failed", "registry_denied", f"denied: denied for {PASSWORD}")
    await place.tick(4)
    job = await place.job(machine.job_id)
    assert (job.status, job.reason) == (JobStatus.PARKED, Reason.IMAGE_LOGIN_REFUSED)
    said = {event.name: dict(event.fields) for event in await place.events(machine.job_id)}
    assert said["image.login_refused"]["message"] == "denied: denied for [password]"
    assert said["lease.boot_failed"] == {"fault": "registry_denied", "message": "denied: denied for [password]"}
    assert place.rented() == 0
    assert job.launches == 1


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no_gpu", "container_exit"])
async def test_a_machine_that_cannot_boot_is_given_up_and_another_rented(place: Place, fault: str) -> None:
    machine = await a_machine(place, "")
    first = await machine.lease()
    await machine.report("failed", fault, "nvidia-smi shows 0 GPUs of 1")
    await place.tick(6)
    job = await place.job(machine.job_id)
    assert job.launches == 2
    assert job.leases[-1].machine_id != first.machine_id
    released = [event for event in await place.events(machine.job_id) if event.name == "lease.release_requested"]
    assert [dict(event.fields)["reason"] for event in released] == ["stuck_loading"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "detail", "known"),
    [
        ("image_missing", "ghcr.io/me/other:1: manifest unknown", "image_missing"),
        ("pull_failed", "no matching manifest for linux/amd64 in the manifest list entries", "image_arch"),
        ("container_exit", "code 1: autopilot: no Python 3.8 or newer in this image, and none to be had", "no_python"),
    ],
)
async def test_an_image_that_starts_nowhere_ends_the_job(place: Place, fault: str, detail: str, known: str) -> None:
    machine = await a_machine(place, "")
    rented_at = (await machine.lease()).acquired_at
    assert rented_at is not None
    await machine.report("failed", fault, detail)
    await place.tick(6)
    job = await place.job(machine.job_id)
    assert (job.status, job.reason, job.launches) == (JobStatus.FAILED, Reason.IMAGE_UNUSABLE, 1)
    assert job.finished_at is not None
    assert job.finished_at - rented_at <= timedelta(minutes=2)
    said = {event.name: dict(event.fields) for event in await place.events(machine.job_id)}
    assert said["lease.boot_failed"] == {"fault": known, "message": detail}
    assert place.rented() == 0


@pytest.mark.slow
async def test_a_pull_limit_is_waited_for(place: Place) -> None:
    machine = await a_machine(place, "")
    await machine.report("failed", "pull_failed", "toomanyrequests: You have reached your pull rate limit")
    await place.tick(6)
    job = await place.job(machine.job_id)
    assert (job.status, job.reason, job.launches) == (JobStatus.PENDING, Reason.PULL_LIMIT, 1)


@pytest.mark.slow
async def test_once_an_agent_spoke_a_failure_is_told_and_decided_like_any_other(place: Place) -> None:
    machine = await a_machine(place, "")
    lease = await machine.lease()
    beat = {
        **{"v": 1, "boot": 1, "seq": 1, "run_epoch": 1, "orders_seq_seen": 1, "state": "running"},
        "notice": {"kind": "preempt", "ends_at": "2026-11-26T12:00:00Z"},
    }
    await machine.blobs.put(heartbeat_key(machine.job_id, lease.id), json.dumps(beat).encode())
    await place.tick(2)
    gone = beat | {"seq": 2, "notice": None}
    await machine.blobs.put(heartbeat_key(machine.job_id, lease.id), json.dumps(gone).encode())
    await machine.report("failed", "container_exit", "code 137")
    await place.tick(3)
    job = await place.job(machine.job_id)
    assert job.leases[-1].is_wanted
    said = [event.name for event in await place.events(machine.job_id)]
    assert [said.count(name) for name in ("lease.notice", "lease.notice_withdrawn", "lease.boot_failed")] == [1, 1, 1]
    assert "lease.release_requested" not in said


@pytest.mark.slow
async def test_what_cannot_end_its_own_bill_is_said_and_held_back(place: Place) -> None:
    watch = place.engine.watches["vastai"]
    provider: Any = watch.provider
    provider.capabilities = replace(provider.capabilities, dead_man=DeadMan.NONE, has_bills=False)
    sent = [Sent(JOB, "job.toml")]
    made = await place.jobs.submissions.submit(sent, itemgetter(0), dry_run=False, owner=1000, again=True)
    notes = made["plan"]["notes"]
    alone = "a machine on vastai keeps billing, GPUs and disk, when unmonitored, until you end it"
    assert f"{alone}; limits hold back 1 h of it" in notes
    assert "vastai shows no bill: what is spent there is by our own clock" in notes
    machine = Machine(place, str(made["job"]["id"]))
    await place.tick(2)
    lease = await machine.lease()
    assert lease.billing.unwatched == timedelta(hours=1)
    assert budget.held_by_purpose(await place.job(machine.job_id), Params())["unwatched"] == lease.bid
    await place.tick(4)
    await place.jobs.cancel(machine.job_id)
    await place.tick(6)
    assert place.rented() == 0


async def test_doctor_says_the_same() -> None:
    able = capabilities()
    assert tell_market(able) == ""
    told = tell_market(replace(able, dead_man=DeadMan.POWERS_OFF, has_bills=False))
    assert told.startswith("a machine there switches itself off when unmonitored; its disk keeps billing; shows no")
    warned = tell_market(replace(able, notice_s=300, notice_may_be_withdrawn=True))
    assert warned == "tells a machine 5 min before it takes it away, and may take that back"


async def until_left(place: Place, machine: Machine, most_s: float) -> float | None:
    """Seconds from now until the machine is given up; None: it is not."""
    began = place.clock.now()
    while (waited_s := (place.clock.now() - began).total_seconds()) < most_s:
        lease = await machine.lease()
        if lease.id != machine.lease_id or not lease.is_wanted:
            return waited_s
        await place.tick(1)
    return None


async def test_one_that_runs_without_a_word_of_its_own_program_is_left_before_its_image_could_be_there(
    place: Place,
) -> None:
    machine = await a_machine(place)
    first_word_s = place.engine.config.params.loading.first_word_s
    waited_s = await until_left(place, machine, 2 * first_word_s)
    assert waited_s is not None
    assert waited_s <= first_word_s + 60
    (start,) = (await place.job(machine.job_id)).failed_starts
    assert (start.fault, start.cause) == ("host_silent", StartCause.UNKNOWN)


async def test_one_whose_program_speaks_is_waited_for(place: Place) -> None:
    machine = await a_machine(place)
    await machine.report("preparing")
    assert await until_left(place, machine, 1.5 * place.engine.config.params.loading.first_word_s) is None
