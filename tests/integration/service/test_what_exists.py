"""What a job asks for is checked against what the markets list and have shown, before it is accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import pytest_asyncio

from autopilot.agent.unpack import AgentUnpacker
from autopilot.answers.models.jobs import ListQuery
from autopilot.api.code import CodeService
from autopilot.api.jobs import JobService
from autopilot.api.submissions import Sent
from autopilot.blobs.local import LocalBlobStore
from autopilot.config.job_changes import change_spec
from autopilot.config.job_file import parse_job
from autopilot.domain import gpu_names
from autopilot.domain.errors import UserError
from autopilot.domain.job import GpuChoice, Job, JobSpec, JobStatus
from autopilot.domain.params import Params
from autopilot.domain.prices import PriceObservation
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Token
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.ids import UlidIds
from autopilot.policy.guard import Limits
from autopilot.ports.images import ImageReader
from autopilot.ports.provider import Plugin
from autopilot.ports.store import Store
from autopilot.providers import runpod, vastai
from autopilot.service.wiring import AgentBootstrap
from autopilot.store.database import open_store
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.builders import START, a_spec
from tests.contract.harness import QuickClock
from tests.patience import PATIENCE_S

LIMITS = Limits(
    day=Decimal(50),
    month=Decimal(500),
    max_hourly=Decimal(10),
    max_instances=10,
    launches_per_job_10min=3,
    launches_per_hour=20,
)
JOB = """
name = "train"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "{gpu}"
disk = "{disk}"
{more}
[work]
estimate = "10m"
[deadline]
within = "9h"
{deadline}
"""


@dataclass
class Shop:
    engine: Engine
    store: Store
    jobs: JobService
    market: str

    async def plan(self, least: float = 0.8, **changes: str) -> Any:
        return (await self._ask(changes, dry_run=True, least_probability=least))["plan"]

    async def submit(self, **changes: str) -> Any:
        return await self._ask(changes, dry_run=False)

    async def _ask(self, changes: dict[str, str], **how: Any) -> Any:
        sent = [Sent(_text(changes), "job.toml")]
        return await self.jobs.submissions.submit(sent, itemgetter(0), owner=1000, **how)


def _text(changes: dict[str, str]) -> str:
    return JOB.format(**({"gpu": "4090", "disk": "20GB", "more": "", "deadline": ""} | changes))


MARKETS: dict[str, tuple[Plugin, str]] = {
    "vastai": (vastai.plugin, "sandbox-key"),
    "runpod": (runpod.plugin, "runpod-sandbox-key"),
}


@asynccontextmanager
async def a_shop(
    market: str, url: str, root: Path, clock: QuickClock, images: ImageReader | None = None
) -> AsyncIterator[Shop]:
    plugin, key = MARKETS[market]
    provider = plugin.connect({"base_url": url, "api_key": key, "timeout_s": 300}, clock)
    store, ids = await open_store(str(root / "ledger.db")), UlidIds(clock)
    blobs = LocalBlobStore(root / "blobs", b"k" * 32, "http://127.0.0.1:1")
    bootstrap = await AgentBootstrap.prepare(blobs)
    config = EngineConfig("install1", LIMITS, Params())
    parts = {market: provider}, store, blobs, bootstrap, AgentUnpacker(), clock, ids
    engine = Engine(config, *parts, images=images)

    def read(text: str, source: str, now: datetime, token: Token | None) -> JobSpec:
        return parse_job(text, source=source, now=now)

    code = CodeService(store, blobs, AgentUnpacker(), clock, ids)
    jobs = JobService(engine, store, blobs, clock, ids, read, change_spec, lambda: None, code)
    yield Shop(engine, store, jobs, market)
    await provider.close()
    await store.close()


@asynccontextmanager
async def an_open_shop(market: str, images: ImageReader | None = None) -> AsyncIterator[Shop]:
    """On a sandbox of its own, after a tick."""
    clock = QuickClock(START)
    with TemporaryDirectory(prefix="ap-") as name:
        config = SandboxConfig(state_dir=Path(name) / "market", real_processes=False)
        async with (
            running_sandbox(config, clock) as sandbox,
            a_shop(market, sandbox.url, Path(name), clock, images) as made,
        ):
            await made.engine.tick()
            yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[*MARKETS])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """Of a market; for tests that leave nothing in its ledger."""
    async with an_open_shop(request.param) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", params=[*MARKETS])
async def fresh_shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with an_open_shop(request.param) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["4090", "rtx_4090", "RTX4090", "A100 80GB", "H100", "A100 SXM4"])
async def test_gpus_are_found_as_people_write_them(shop: Shop, gpu: str) -> None:
    planned = await shop.plan(gpu=gpu)
    assert planned["offers"], planned["notes"]
    assert {offer["gpu"] for offer in planned["offers"]} <= {*gpu_names.expand(gpu)}
    assert planned["refusal"] is None


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["rtx 4090", "NVIDIA A100-SXM4-80GB", "A100 SXM4", "A100 SXM"])
async def test_a_job_that_the_ledger_has_under_another_spelling_goes_on(fresh_shop: Shop, gpu: str) -> None:
    spec = a_spec(gpus=(GpuChoice(gpu),), work_estimate=None)
    async with fresh_shop.store.transaction() as uow:
        await uow.jobs.save(Job("old", spec, JobStatus.PENDING, Reason.SUBMITTED, START))
    rented = None
    for _ in range(3):  # a list that a busy machine answers late makes the market unknown for a tick
        await fresh_shop.engine.tick()
        await fresh_shop.engine.calls.settle_for(PATIENCE_S)
        async with fresh_shop.store.snapshot() as uow:
            job = await uow.jobs.find("old")
        if job is not None and job.main is not None:
            rented = job.main.gpu
            break
    assert rented is not None, "it rents"
    assert gpu_names.is_called(rented, gpu)


async def test_a_name_for_several_models_is_said_to_be_one(shop: Shop) -> None:
    assert "A100 80GB means A100 PCIE and A100 SXM4 with 80 GB" in (await shop.plan(gpu="A100 80GB"))["notes"]
    assert not any(" means " in note for note in (await shop.plan(gpu="rtx_4090"))["notes"])


async def test_a_gpu_that_no_market_lists_is_refused_with_the_nearest(shop: Shop) -> None:
    with pytest.raises(UserError, match=r"no market lists a GPU called 'RTX 4900'") as refused:
        await shop.submit(gpu="RTX 4900")
    assert refused.value.hint == "the nearest is RTX 4090 (24 or 48 GB)"
    with pytest.raises(UserError, match=r"no market lists a GPU called 'A100 160GB'") as refused:
        await shop.submit(gpu="A100 160GB")
    assert "40 or 80 GB" in refused.value.hint
    assert (await shop.jobs.overview(ListQuery(all=True)))["jobs"] == []


@pytest.mark.slow
async def test_the_market_s_own_list_decides(fresh_shop: Shop) -> None:
    listed = await fresh_shop.engine.gpu_names()
    if fresh_shop.market == "vastai":
        assert {*gpu_names.NAMES} <= {*listed}, "it names all that it ever offered"
        assert (await fresh_shop.submit(gpu="B300"))["job"]["status"] == "pending"
    else:
        assert not any(gpu_names.is_called(each, "B300") for each in listed)
        with pytest.raises(UserError, match="no market lists a GPU called 'B300'"):
            await fresh_shop.submit(gpu="B300")


@pytest.mark.parametrize("market", [*MARKETS])
async def test_the_shipped_list_replaces_that_of_an_unreachable_market(market: str, tmp_path: Path) -> None:
    async with a_shop(market, "http://127.0.0.1:9", tmp_path, QuickClock(START)) as shut:
        assert await shut.engine.gpu_names() == gpu_names.NAMES
        with pytest.raises(UserError, match="no market lists a GPU called 'RTX 4900'"):
            await shut.submit(gpu="RTX 4900")
        assert (await shut.submit(gpu="rtx_4090"))["job"]["status"] == "pending"


async def test_more_vram_than_any_machine_has_is_said_with_the_most_there_is(shop: Shop) -> None:
    planned = await shop.plan(more='vram = "800GB"')
    assert planned["verdict"] == "infeasible"
    assert "resources.vram: no 4090 has 800 GB: the most is 48 GB" in planned["refusal"]
    assert "B300 has the most, 288 GB" in planned["refusal"]
    with pytest.raises(UserError, match=r"resources\.vram"):
        await shop.submit(more='vram = "800GB"')


async def test_a_larger_disk_than_any_machine_has_is_said_with_the_largest(shop: Shop) -> None:
    planned = await shop.plan(disk="500TB")
    assert planned["verdict"] == "infeasible"
    assert "resources.disk: no machine has 500000 GB: the largest seen is" in planned["refusal"]
    accepted = await shop.plan(disk="500TB", least=0)
    assert (accepted["refusal"], accepted["verdict"]) == (None, "tight"), "never fine: there is nothing to rent"
    assert "no matching offers: the job would wait" in accepted["notes"]


async def test_more_gpus_than_any_machine_has_are_said_with_the_most_there_are(shop: Shop) -> None:
    planned = await shop.plan(gpu="4090:99")
    assert planned["verdict"] == "infeasible"
    assert planned["refusal"].startswith("resources.gpu: no machine has 99 × 4090: the most seen in one is ")
    with pytest.raises(UserError, match=r"no machine has 99 × 4090"):
        await shop.submit(gpu="4090:99")
    assert (await shop.plan(gpu="4090:99 | 4090:1"))["refusal"] is None


async def test_a_limit_below_every_price_of_the_week_is_said_with_the_lowest(shop: Shop) -> None:
    planned = await shop.plan(more='max_hourly = "$0.01"')
    assert planned["verdict"] == "infeasible"
    assert (
        "resources.max_hourly: $0.010 is below every price of the last 7 days: the lowest was $0." in planned["refusal"]
    )


BELOW = '[spot]\npolicy = "spot"\nmax_price = "$0.001"'


async def test_a_bid_below_every_floor_of_the_week_is_said_with_the_lowest(shop: Shop) -> None:
    planned = await shop.plan(more=BELOW)
    assert planned["verdict"] == "infeasible"
    assert "spot.max_price: $0.001 is below every floor of the last 7 days" in planned["refusal"]
    assert planned["refusal"].endswith("would win now")
    with pytest.raises(UserError, match=r"spot\.max_price"):
        await shop.submit(more=BELOW)


async def test_the_bid_that_is_named_wins(shop: Shop) -> None:
    refusal = (await shop.plan(more=BELOW))["refusal"]
    wins = refusal.removesuffix(" would win now").rpartition(" ")[2].strip('"')
    planned = await shop.plan(more=BELOW.replace("$0.001", wins))
    assert planned["offers"]
    assert "max_price" not in str(planned["refusal"])


async def test_a_job_that_would_wait_for_ever_is_never_fine(shop: Shop) -> None:
    """It takes nothing on demand, and no bid of its would win: what there is on demand is no offer to it."""
    waits, never = BELOW.replace('policy = "spot"', 'policy = "auto"'), 'fallback = "never"'
    planned = await shop.plan(more=waits, deadline=never)
    assert planned["verdict"] == "infeasible"
    assert "spot.max_price" in planned["refusal"]
    accepted = await shop.plan(more=waits, deadline=never, least=0)
    assert (accepted["refusal"], accepted["verdict"]) == (None, "tight")
    falls_back = await shop.plan(more=waits)
    assert falls_back["refusal"] is None


@pytest.mark.slow
async def test_a_disk_below_the_market_s_least_is_raised_and_said(fresh_shop: Shop) -> None:
    planned = await fresh_shop.plan(disk="1GB")
    job = (await fresh_shop.submit(disk="1GB"))["job"]
    async with fresh_shop.store.snapshot() as uow:
        kept = await uow.jobs.find(job["id"])
    assert kept is not None
    if fresh_shop.market == "vastai":
        raised = "resources.disk: vastai rents no disk of 1 GB: it is raised to 8 GB, the least there"
        assert raised in planned["notes"]
        assert kept.spec.disk_gb == 8
    else:
        assert kept.spec.disk_gb == 1, "its adapter asks for what it rents"
    await fresh_shop.engine.tick()
    await fresh_shop.engine.calls.settle_for(PATIENCE_S)
    async with fresh_shop.store.snapshot() as uow:
        kept = await uow.jobs.find(job["id"])
    assert kept is not None
    assert kept.main is not None
    assert kept.main.instance_id is not None, "the market rents it"


async def test_a_price_on_record_is_reason_enough_to_wait_for_it(fresh_shop: Shop) -> None:
    seen = PriceObservation("vastai", "1", "RTX 4090", 1, Decimal("0.02"), Decimal("0.5"), START - timedelta(days=2))
    async with fresh_shop.store.transaction() as uow:
        await uow.prices.add([seen])
    planned = await fresh_shop.plan(more='max_hourly = "$0.03"')
    assert (planned["refusal"], planned["verdict"]) == (None, "tight")


@pytest.mark.slow
async def test_past_jobs_say_how_long_the_work_may_take(fresh_shop: Shop) -> None:
    async with fresh_shop.store.transaction() as uow:
        for number in range(3):
            spec = replace(parse_job(_text({}), source="job.toml", now=START), name=f"past-{number}")
            past = Job(f"0PAST{number}", spec, JobStatus.SUCCEEDED, Reason.COMPLETED, START, owner=1000)
            await uow.jobs.save(replace(past, work_done=timedelta(minutes=13), finished_at=START))
    told = "time is held for 13 min of work, 30% more than estimated, by 3 past jobs of yours"
    assert told in (await fresh_shop.plan())["notes"]
    job = (await fresh_shop.submit())["job"]
    async with fresh_shop.store.snapshot() as uow:
        kept = await uow.jobs.find(job["id"])
        assert kept is not None
        assert kept.spec.work_at_most == timedelta(minutes=13)
    said = _text({}).replace('estimate = "10m"', 'estimate = "10m"\nat_most = "11m"')
    for text, owner in ((said, 1000), (_text({}), 1001)):
        sent = [Sent(text, "job.toml")]
        answer = await fresh_shop.jobs.submissions.submit(sent, itemgetter(0), owner=owner, dry_run=True)
        assert "time is held" not in str(answer)
