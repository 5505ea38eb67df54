"""Leases on machines of one's own, over a real OpenSSH on loopback: what they touch, what ends them, what is told."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.domain.instance import Instance, InstanceStatus, Stopper
from autopilot.domain.lease import Lease
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import NO_EVIDENCE, name_cause
from autopilot.ports.provider import CreateRequest, Done, MarketUnknown, Provider, RefusalCode, Refused
from autopilot.providers import registry
from autopilot.providers.ssh.config import MachineSettings, SshSettings
from autopilot.providers.ssh.machine import AGAIN_S, UNSEEN_S, OwnMachine
from autopilot.providers.ssh.shipped.program import GRACE_S, read_process
from tests.builders import a_lease
from tests.contract.harness import QuickClock
from tests.patience import eventually, until
from tests.ssh_machines import OwnMachines, needs_openssh, own_machines

pytestmark = needs_openssh
QUERY = OfferQuery((("RTX 4090", 1),), Decimal(20), Decimal(1), verified_only=False, datacenter_only=False)
STATED = {"gpus": "RTX 4090:1", "vram_gb": 24}
SLEEP = "exec sleep 86400"
UNTIL_NOTICE = """\
while [ ! -e "$AUTOPILOT_ROOT/notice" ]; do sleep 0.05; done
cp "$AUTOPILOT_ROOT/notice" "$AUTOPILOT_ROOT/seen"
"""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[OwnMachines]:
    with own_machines(tmp_path, "attic") as made:
        yield made


@pytest.fixture
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the user's, which says the same words as a job."""
    with subprocess.Popen(["sleep", "86400"]) as made:
        yield made
        made.kill()


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


def connect(machines: OwnMachines, clock: QuickClock, **more: object) -> Provider:
    """One machine, of one GPU that the settings state unless ``more`` says otherwise."""
    each = machines.settings("attic", **(more or STATED))
    return registry.connect("ssh", {"config_file": machines.config_file, "machines": {"attic": each}}, clock)


def request(offer: Offer, onstart: str = SLEEP, label: str = "ap1.test.01LEASE") -> CreateRequest:
    assert offer.on_demand_price is not None
    return CreateRequest(
        label=label,
        offer_id=offer.offer_id,
        machine_id=offer.machine_id,
        capacity_type=CapacityType.ON_DEMAND,
        bid=offer.on_demand_price,
        image="some/image:1",
        disk_gb=Decimal(1),
        env={},
        onstart=onstart,
    )


async def rent(provider: Provider, onstart: str = SLEEP) -> str:
    (offer,) = await provider.offers(QUERY)
    made = await provider.create(request(offer, onstart))
    assert isinstance(made, Done), made
    return made.value.instance_id


async def shown(provider: Provider) -> Instance:
    (instance,) = await provider.instances()
    return instance


async def test_a_lease_is_free_and_firm_and_goes_without_a_trace(
    machines: OwnMachines, clock: QuickClock, neighbour: subprocess.Popen[bytes]
) -> None:
    """And what is beside it stays: files, a directory that looks like one of ours, a process with the same words."""
    provider = connect(machines, clock)
    (offer,) = await provider.offers(QUERY)
    assert (offer.on_demand_price, offer.floor, offer.ends_at) == (Decimal(0), None, None)
    instance_id = await rent(provider)
    here = machines.directory("attic")
    beside = [here / "mine", here / "leases" / "notes" / "text", here.parent / "file"]
    for path in beside:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the user's")
    found = await shown(provider)
    assert (found.status, found.bid, found.bills) == (InstanceStatus.RUNNING, Decimal(0), Decimal(0))
    assert await provider.offers(QUERY) == ()
    (lease,) = machines.leases("attic")
    assert machines.processes("attic")
    assert await provider.destroy(instance_id) == Done(None)
    assert await provider.instances() == ()
    assert not (here / "leases" / lease).exists()
    assert [path.read_text() for path in beside] == ["the user's"] * 3
    assert neighbour.poll() is None
    (again,) = await provider.offers(QUERY)
    assert again.key == offer.key


def living(pids: Iterable[int]) -> list[int]:
    """Those of them that are more than an entry which nobody has taken note of."""
    return [pid for pid in pids if (read_process(pid) or (0, "Z", 0))[1] != "Z"]


def count_sleeps(machines: OwnMachines) -> int:
    return sum(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in machines.processes("attic"))


HIDES = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.environ.clear()\n"
HIDES += "os.execve('/bin/sleep', ['sleep', '86400'], {})"


@pytest.mark.slow
async def test_a_process_that_hides_ends_with_its_lease(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    instance_id = await rent(provider, f"{sys.executable} -c {shlex.quote(HIDES)}; exec sleep 86400")
    await eventually(lambda: count_sleeps(machines) == 2, "the start text's and the one that hides")
    own = machines.processes("attic")
    assert await provider.destroy(instance_id) == Done(None)
    assert living(own) == []


@pytest.mark.slow
async def test_a_create_that_comes_again_makes_no_second_lease(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock, gpus="RTX 4090:2", vram_gb=24, jobs=2)
    one, two = await provider.offers(QUERY)
    first = await provider.create(request(one))
    before = machines.leases("attic")
    assert await provider.create(request(one)) == first
    assert machines.leases("attic") == before
    other = await provider.create(request(one, label="ap1.test.01OTHER"))
    assert isinstance(other, Refused)
    assert (other.code, "the slot is taken" in other.message) == (RefusalCode.OFFER_GONE, True)
    assert isinstance(await provider.create(request(two, label="ap1.test.01OTHER")), Done)
    assert await provider.offers(QUERY) == ()


@pytest.mark.slow
async def test_after_a_reboot_it_starts_again_by_itself(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    await rent(provider, 'echo "autopilot: begun" >> "$AUTOPILOT_ROOT/starts"; exec sleep 86400')
    (lease,) = machines.leases("attic")
    starts = machines.directory("attic") / "leases" / lease / "root" / "starts"
    await eventually(starts.exists, "the first start")
    machines.reboot("attic")
    assert (await shown(provider)).status is InstanceStatus.PROVISIONING
    await eventually(lambda: len(starts.read_text().splitlines()) == 2, "the second start")
    assert (await shown(provider)).status is InstanceStatus.RUNNING


@pytest.mark.slow
async def test_an_agent_that_is_left_alone_ends_all_the_same(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    instance_id = await rent(provider, "sleep 86400")
    await eventually(lambda: count_sleeps(machines) == 1, "the start text's process")
    (lease,) = machines.leases("attic")
    keeper = int((machines.directory("attic") / "leases" / lease / "lock").read_text())
    own = machines.processes("attic")
    os.kill(keeper, signal.SIGKILL)
    assert await provider.destroy(instance_id) == Done(None)
    assert living(own) == []


@pytest.mark.slow
async def test_an_agent_that_wishes_to_go_takes_its_lease_along(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    await rent(provider, 'printf destroy > "$AUTOPILOT_ROOT/wish"; exec sleep 86400')
    await eventually(lambda: not machines.leases("attic"), "the end of the lease")
    assert await provider.instances() == ()
    assert len(await provider.offers(QUERY)) == 1


@pytest.mark.slow
async def test_its_owner_takes_it_back_by_a_file(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock, **STATED, owner_may_take_back=True)
    assert provider.capabilities.notice_s == 60
    (offer,) = await provider.offers(QUERY)
    await rent(provider, UNTIL_NOTICE)
    (lease,) = machines.leases("attic")
    mark = machines.directory("attic") / "taken-back"
    mark.touch()

    async def is_taken() -> bool:
        return (await shown(provider)).status is InstanceStatus.STOPPED

    await eventually(is_taken, "the end")
    assert '"soft": false' in (machines.directory("attic") / "leases" / lease / "root" / "seen").read_text()
    found = await shown(provider)
    assert (found.stopped_by, found.message) == (Stopper.BIDDER, "its owner has taken the machine back")
    assert name_cause(held(found), found, NO_EVIDENCE, clock.now()) is Reason.DISPLACED
    assert machines.processes("attic") == {}
    assert isinstance(await provider.start(found.instance_id), Refused)
    mark.unlink()
    assert (await shown(provider)).status is InstanceStatus.PROVISIONING, "it is given back, and the lease goes on"
    assert (await shown(provider)).status is InstanceStatus.RUNNING
    mark.touch()
    await eventually(is_taken, "the second end")
    assert await provider.destroy(found.instance_id) == Done(None)
    refused = await provider.create(request(offer))
    assert isinstance(refused, Refused)
    assert "its owner has taken it back" in refused.message


def held(instance: Instance) -> Lease:
    return replace(a_lease(), capacity_type=instance.capacity_type, bid=instance.bid)


@pytest.mark.slow
async def test_only_an_owner_who_may_takes_it_back(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    await rent(provider, UNTIL_NOTICE)
    (machines.directory("attic") / "taken-back").touch()
    clock.advance(100)
    assert await provider.offers(QUERY) == (), "nothing new begins there"
    assert (await shown(provider)).status is InstanceStatus.RUNNING


def gpu(index: int, used_mib: int) -> str:
    return f"{index}, GPU-{index}, NVIDIA GeForce RTX 4090, 24564, {used_mib}, 580.95.05, 8.9"


@pytest.mark.slow
async def test_a_gpu_that_somebody_uses_is_not_offered(machines: OwnMachines, clock: QuickClock) -> None:
    machines.show_gpus(gpu(0, 12), gpu(1, 20_000))
    provider = connect(machines, clock, jobs=2)
    (offer,) = await provider.offers(QUERY)
    assert (offer.machine_id, offer.host.driver, round(offer.vram_gb)) == ("attic/0", "580.95.05", 24)
    assert await provider.gpu_names() == ("RTX 4090",)
    machines.show_gpus(gpu(0, 9_000), gpu(1, 20_000))
    refused = await provider.create(request(offer))
    assert isinstance(refused, Refused)
    assert "GPU 0 has 9000 of 24564 MiB in use" in refused.message
    assert await provider.offers(QUERY) == ()


@pytest.mark.slow
async def test_a_machine_that_vanishes_is_offline_and_no_proof_of_an_end(
    machines: OwnMachines, clock: QuickClock
) -> None:
    provider = connect(machines, clock)
    instance_id = await rent(provider)
    assert (await shown(provider)).status is InstanceStatus.RUNNING
    machines.stop()
    clock.advance(AGAIN_S)
    lost = await shown(provider)
    assert (lost.instance_id, lost.status, lost.bills) == (instance_id, InstanceStatus.OFFLINE, Decimal(0))
    with pytest.raises(MarketUnknown, match="Connection refused"):
        await provider.instance(instance_id)
    assert not isinstance(await provider.destroy(instance_id), Done)
    other = connect(machines, clock)
    with pytest.raises(MarketUnknown, match="Connection refused"):
        await other.instances()
    clock.advance(UNSEEN_S)
    assert await other.instances() == (), "by now its agents have ended themselves"
    machines.start()
    clock.advance(AGAIN_S)
    assert (await shown(other)).instance_id == instance_id


@pytest.mark.slow
async def test_a_host_with_another_key_is_told_nothing(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    (offer,) = await provider.offers(QUERY)
    machines.know(machines.make_key())
    refused = await provider.create(request(offer))
    assert isinstance(refused, Refused)
    assert "Host key verification failed" in refused.message
    assert machines.leases("attic") == {}


@pytest.mark.slow
async def test_a_stop_gives_the_agent_time_to_save(machines: OwnMachines, clock: QuickClock) -> None:
    provider = connect(machines, clock)
    saves = "trap 'echo saved > \"$AUTOPILOT_ROOT/saved\"; exit 0' TERM; while :; do sleep 0.05; done"
    instance_id = await rent(provider, saves)
    (lease,) = machines.leases("attic")
    until(lambda: len(machines.processes("attic")) >= 2, "the shell")
    assert await provider.stop(instance_id) == Done(None)
    assert (machines.directory("attic") / "leases" / lease / "root" / "saved").exists()
    assert machines.processes("attic") == {}


async def create(machines: OwnMachines, clock: QuickClock, start: str, **terms: object) -> OwnMachine:
    """A lease on terms that no request over an hour's length could have."""
    settings = MachineSettings.model_validate(machines.settings("attic", **STATED))
    machine = OwnMachine("attic", settings, SshSettings(config_file=machines.config_file), clock)
    lease: dict[str, object] = {
        "label": "ap1.test.01LEASE",
        "slot": 0,
        "gpu": "RTX 4090",
        "num_gpus": 1,
        "devices": [0],
        "env": {},
    }
    lease |= {"ends_at": None, "may_be_taken": False, "speed": 1, "agent_within_s": 1800, **terms}
    made = await machine.change("create", name="ap1.test.01LEASE", lease=lease, start=start, disk_mb=1)
    assert made == {"done": "ap1.test.01LEASE"}
    return machine


@pytest.mark.slow
async def test_a_lease_ends_before_its_hours_do(machines: OwnMachines, clock: QuickClock) -> None:
    machine = await create(machines, clock, UNTIL_NOTICE, ends_at=round(time.time() + GRACE_S))
    await eventually(lambda: not machines.processes("attic"), "the end")
    assert [each.state for each in (await machine.look()).leases] == ["hours"]
    (seen,) = (machines.directory("attic") / "leases").glob("*/root/seen")
    assert '"kind": "preempt"' in seen.read_text()


@pytest.mark.slow
async def test_a_start_that_brings_no_agent_ends_itself(machines: OwnMachines, clock: QuickClock) -> None:
    machine = await create(machines, clock, SLEEP, agent_within_s=0.5)
    await eventually(lambda: not machines.leases("attic"), "the end of the lease")
    assert (await machine.look()).leases == ()
