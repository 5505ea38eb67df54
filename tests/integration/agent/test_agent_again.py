"""A command that fails, on the sandbox: an engine, rented machines with real agents, one or two attempts on each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest

from autopilot.agent.bootstrap import onstart
from autopilot.agent.unpack import AgentUnpacker
from autopilot.blobs.local import LocalBlobStore
from autopilot.clock import ScaledClock
from autopilot.config.job_file import parse_job
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.ids import UlidIds
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.order_shapes import Work
from autopilot.policy.guard import Limits
from autopilot.ports.bootstrap import Bootstrap
from autopilot.ports.store import Store
from autopilot.providers.vastai import plugin
from autopilot.service.wiring import AgentBootstrap
from autopilot.store.database import open_store
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig, running_sandbox
from tests.integration.agent.agent_world import DAY, SPEED, World, verified
from tests.patience import eventually
from tests.previous import Previous

TICK_S = 15.0
LIMITS = Limits(Decimal(50), Decimal(500), Decimal(10), 10, 10, 20)
JOB = """name = "train"
image = "some/image:1"
setup = 'echo set up >> {witness}'
run = '''{run}'''
[resources]
gpu = "RTX 4090:1"
disk = "20GB"
[budget]
total = "$9"
[checkpoint]
path = "state"
"""
COUNT = """n=$(cat state 2>/dev/null || echo 0); echo "run from $n" >> {witness}; echo $((n + 1)) > state
rm lies-here 2>/dev/null && echo "as it lay" >> {witness}; touch lies-here; test $n -ge {last}"""
"""Says from what it goes on; ends well once ``last`` attempts have failed."""
AGENT_OF_BEFORE = (
    "import sys; from autopilot.agent.artifact import agent_source; sys.stdout.buffer.write(agent_source())"
)


@dataclass
class Rental:
    engine: Engine
    store: Store
    sandbox: Sandbox
    clock: ScaledClock
    witness: Path

    async def end_of(self, run: str) -> tuple[Job, tuple[Lease, ...]]:
        """The job and its leases once the job is over and nothing is rented any more."""
        now = self.clock.now()
        spec = parse_job(JOB.format(run=run, witness=self.witness), source="job.toml", now=now)
        job = Job("01JOB00000", spec, JobStatus.PENDING, Reason.SUBMITTED, now)
        async with self.store.transaction() as uow:
            await uow.jobs.save(job)

        async def look() -> tuple[Job, tuple[Lease, ...]] | None:
            await self.engine.tick()
            await self.clock.sleep(TICK_S)
            async with self.store.snapshot() as uow:
                found, leases = await uow.jobs.find(job.id), await uow.leases.list_by_job(job.id)
            assert found is not None
            return (found, leases) if found.status.is_final and all(lease.is_over for lease in leases) else None

        ended: tuple[Job, tuple[Lease, ...]] = await eventually(look, "the end of the job")
        return ended

    async def events(self) -> list[str]:
        async with self.store.snapshot() as uow:
            return [record.name for record in await uow.events.list_after()]

    def told(self) -> list[str]:
        return self.witness.read_text().splitlines()


class OldBootstrap:
    """Machines get the agent of the version before."""

    def __init__(self, blobs: LocalBlobStore, agent: bytes) -> None:
        self._blobs, self._sha256 = blobs, sha256(agent).hexdigest()
        self.key = f"agent/{self._sha256}.pyz"

    def onstart(self, job_id: str, lease_id: str) -> str:
        orders_url = self._blobs.sign_get(orders_key(job_id, lease_id), DAY)
        return onstart(self._blobs.sign_get(self.key, DAY), self._sha256, orders_url)

    def host_script(self, job_id: str, lease_id: str, *, stays: bool) -> str:
        raise AssertionError("no market here boots virtual machines")


def agent_of_before(directory: Path) -> bytes:
    previous = Previous(directory)
    command = [sys.executable, "-c", AGENT_OF_BEFORE]
    return subprocess.run(command, env=previous.environment, cwd=directory, stdout=subprocess.PIPE, check=True).stdout


Rent = Callable[..., AbstractAsyncContextManager[Rental]]


@pytest.fixture
async def rent(tmp_path: Path, world: World) -> Rent:
    """``world`` has the store that machines reach."""

    @asynccontextmanager
    async def renting(*, of_before: bool = False) -> AsyncIterator[Rental]:
        clock, blobs = ScaledClock(datetime.now(UTC), SPEED), world.store
        bootstrap: Bootstrap = await AgentBootstrap.prepare(blobs)
        if of_before:
            agent = agent_of_before(tmp_path / "before")
            bootstrap = OldBootstrap(blobs, agent)
            await blobs.put(bootstrap.key, agent)
        config = SandboxConfig(tmp_path / "sandbox", loading_s=5.0, enforce_rate_limits=False)
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(running_sandbox(config, clock))
            provider = plugin.connect({"base_url": sandbox.url, "api_key": "sandbox-key"}, clock)
            stack.push_async_callback(provider.close)
            store = await open_store(str(tmp_path / "ledger.db"))
            stack.push_async_callback(store.close)
            engine = Engine(
                EngineConfig("install3", LIMITS, Params()),
                {provider.name: provider},
                store,
                blobs,
                bootstrap,
                AgentUnpacker(),
                clock,
                UlidIds(clock),
            )
            stack.push_async_callback(engine.calls.settle_for, 10)
            witness = tmp_path / "witness"
            witness.touch()
            witness.chmod(0o666)
            yield Rental(engine, store, sandbox, clock, witness)

    return renting


@pytest.mark.slow
async def test_a_command_that_fails_once_ends_well_on_the_same_machine(rent: Rent) -> None:
    async with rent() as rental:
        job, leases = await rental.end_of(COUNT.format(witness=rental.witness, last=1))
        assert (job.status, job.failures, job.run_epoch) == (JobStatus.SUCCEEDED, 1, 2)
        assert rental.told() == ["set up", "run from 0", "run from 1", "as it lay"]
        assert (len(leases), len(rental.sandbox.market.instances)) == (1, 1), "one rental, in both books"
        events = await rental.events()
        assert (events.count("lease.intended"), events.count("run.exited"), events.count("run.ordered")) == (1, 2, 1)
        assert job.checkpoint is not None
        assert job.checkpoint.run_epoch == 2


@pytest.mark.slow
async def test_after_a_second_failure_another_machine_restores_the_checkpoint(rent: Rent) -> None:
    async with rent() as rental:
        job, leases = await rental.end_of(COUNT.format(witness=rental.witness, last=2))
        assert (job.status, job.failures, job.run_epoch) == (JobStatus.SUCCEEDED, 2, 3)
        first = ["set up", "run from 0", "run from 1", "as it lay"]
        assert rental.told() == [*first, "set up", "run from 2"], "what lay beside the checkpoint is not there"
        assert [lease.reason for lease in leases] == [Reason.RETRY, Reason.COMPLETED]
        assert len({lease.machine_id for lease in leases}) == len(rental.sandbox.market.instances) == 2


@pytest.mark.slow
async def test_a_command_that_the_host_kills_is_tried_on_another_machine_at_once(rent: Rent) -> None:
    async with rent() as rental:
        run = f"{COUNT.format(witness=rental.witness, last=1)} || kill -9 $$"
        job, leases = await rental.end_of(run)
        assert (job.status, job.failures, len(leases)) == (JobStatus.SUCCEEDED, 1, 2)
        assert rental.told() == ["set up", "run from 0", "set up", "run from 1"]


@pytest.mark.slow
async def test_an_agent_of_the_version_before_is_replaced_after_the_first_failure(rent: Rent) -> None:
    async with rent(of_before=True) as rental:
        job, leases = await rental.end_of(COUNT.format(witness=rental.witness, last=1))
        assert (job.status, job.failures, len(leases)) == (JobStatus.SUCCEEDED, 1, 2)
        assert rental.told() == ["set up", "run from 0", "set up", "run from 1"]
        assert "run.ordered" not in await rental.events()


@pytest.mark.slow
async def test_a_setup_that_failed_runs_again_before_the_command(world: World) -> None:
    setup = "echo tried >> setups; test $(wc -l < setups) -ge 2"
    lease = await world.lease("a", Work(setup=setup, run="echo ran >> runs"))
    host = world.host(lease)
    host.start()
    first = await eventually(lease.exit, "the exit of the setup")
    assert (first.run_epoch, first.exit_code, first.reason) == (1, 1, "setup_failed")
    beat = await lease.until("finished", lambda beat: beat.state == "finished")
    assert "next_task" not in beat.can, "before the work directory is looked through it cannot tell what to keep"
    await lease.order(run_epoch=2)

    async def second() -> bool:
        record = await lease.exit()
        return record is not None and (record.run_epoch, record.exit_code) == (2, 0)

    await eventually(second, "the exit of the command")
    assert (host.root / "workspace/setups").read_text() == "tried\ntried\n"
    assert (host.root / "workspace/runs").read_text() == "ran\n"


@pytest.mark.slow
async def test_killed_before_it_starts_over_it_does_so_once_from_the_checkpoint(world: World) -> None:
    """A market may stop the machine between two attempts: what the run left beside its checkpoint may be gone."""
    lease = await world.lease("a", Work(run="cat state >> runs; echo x >> state; exit 1", checkpoint_path="state"))
    host = world.host(lease)
    host.start()
    await lease.until("finished", lambda beat: beat.state == "finished" and beat.last_checkpoint == 0)
    host.kill()
    (host.root / "workspace/state").unlink()
    await lease.order(run_epoch=2, restore=await verified(world.store, "a", 0))
    host.start()

    async def second() -> bool:
        record = await lease.exit()
        return record is not None and record.run_epoch == 2

    await eventually(second, "the exit of the second run")
    assert (host.root / "workspace/runs").read_text() == "x\n"
    assert (host.root / "workspace/state").read_text() == "x\nx\n"
