"""What an adapter reads of an answer and what its shape says that it reads are the same, field by field."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from autopilot.clock import ScaledClock
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.ports.provider import CreateRequest, MarketUnknown, Provider
from autopilot.providers import values
from autopilot.providers.drift.counter import DriftCounter
from autopilot.providers.drift.shape import LIST, AnswerShape
from autopilot.providers.mithril import plugin as mithril_plugin
from autopilot.providers.mithril import shapes as mithril_shapes
from autopilot.providers.runpod import plugin as runpod_plugin
from autopilot.providers.runpod import shapes as runpod_shapes
from autopilot.providers.vastai import plugin as vastai_plugin
from autopilot.providers.vastai import shapes as vastai_shapes
from tests.integration.wire.recorded_market import (
    BID,
    INSTANCE,
    POD,
    RecordedMarket,
    mithril,
    recorded,
    recorded_market,
    runpod,
    runpod_rest,
    vastai,
)
from tests.patience import PATIENCE_S

DAY = dt.date(2026, 11, 19)
NOON = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
"""What was recorded lies before it."""
GPUS = (("RTX 4090", 1), ("RTX A4000", 1), ("H100", 8))
QUERY = OfferQuery(gpus=GPUS, min_vram_gb=Decimal(0), disk_gb=Decimal(20), verified_only=False, datacenter_only=False)


class Row(dict[str, Any]):
    """An object that takes note of the fields that somebody looks at, in it and in what is inside of it."""

    def __init__(self, row: dict[str, Any], around: Row | None = None, place: str = "") -> None:
        super().__init__({name: watched(value, self, name) for name, value in row.items()})
        self.seen: set[str] = set()
        self._around = around
        self._place = place

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def _note(self, field: str) -> None:
        self.seen.add(field)
        if self._around is not None:
            self._around._note(f"{self._place}.{field}")


def watched(value: Any, around: Row | None = None, place: str = "") -> Any:
    if isinstance(value, dict):
        return Row(value, around, place)
    if isinstance(value, list):
        return [watched(item, around, f"{place}[]") for item in value]
    return value


def read_fields(shape: AnswerShape, path: str = "") -> Iterator[str]:
    for name, field in shape.fields.items():
        if field.is_read:
            yield path + name
        if field.inside is not None:
            yield from read_fields(field.inside, f"{path}{name}{'[]' if LIST in field.kinds else ''}.")


def parts(shape: AnswerShape) -> Iterator[AnswerShape]:
    for field in shape.fields.values():
        if field.inside is not None:
            yield field.inside
            yield from parts(field.inside)


def shapes_of(module: ModuleType) -> dict[str, AnswerShape]:
    return {name: each for name, each in vars(module).items() if isinstance(each, AnswerShape)}


class Reads:
    """By shape: the fields that were looked at in the bodies that had it, by anybody but the comparison."""

    def __init__(self) -> None:
        self._rows: list[tuple[AnswerShape, Row, str]] = []

    def look(self, shape: AnswerShape, body: Any) -> None:
        if isinstance(body, Row):
            self._rows.append((shape, body, ""))
        else:  # the list that the SDK gave, in an object of ours
            ((name, rows),) = body.items()
            self._rows += [(shape, row, f"{name}[].") for row in rows]

    def by_shape(self) -> dict[AnswerShape, set[str]]:
        fields: dict[AnswerShape, set[str]] = defaultdict(set)
        for shape, row, place in self._rows:
            fields[shape] |= {place + name for name in row.seen}
        return fields


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    made, decode = Reads(), values.decode
    monkeypatch.setattr(values, "decode", lambda text: watched(decode(text)))
    monkeypatch.setattr(DriftCounter, "look", lambda _, shape, body: made.look(shape, body))
    return made


async def ask_everything(provider: Provider, instance_id: str, offer_id: str) -> None:
    for ask in (
        provider.instances,
        lambda: provider.instance(instance_id),
        lambda: provider.start_words(instance_id),
        provider.account,
        lambda: provider.offers(QUERY),
        provider.gpu_names,
        lambda: provider.past_prices(QUERY, NOON - dt.timedelta(days=2), NOON),
        lambda: provider.charges(DAY, DAY + dt.timedelta(days=400)),
    ):
        try:
            await ask()
        except MarketUnknown:
            continue
    for capacity_type in CapacityType:
        await provider.create(
            CreateRequest(
                label="ap1.abcdefgh.01KDVDNRY4R11887CN5CG1S8J6",
                offer_id=offer_id,
                machine_id="1",
                capacity_type=capacity_type,
                bid=Decimal("0.4"),
                image="some/image:1",
                disk_gb=Decimal(20),
                env={},
                onstart="true",
            )
        )
    await provider.change_bid(instance_id, Decimal("0.3"))
    for change in (provider.start, provider.stop, provider.destroy):
        await change(instance_id)
    if provider.kept_logins is not None:
        with contextlib.suppress(MarketUnknown):
            await provider.kept_logins.list()


def without(bodies: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The bodies less those fields, wherever they stand: the adapter looks at others in their stead."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cut(inner) for name, inner in value.items() if name not in fields}
        return [cut(item) for item in value] if isinstance(value, list) else value

    return {key: cut(body) for key, body in bodies.items()}


def stopped(**changes: Any) -> dict[str, Any]:
    pod = runpod()["query Sweep"]["data"]["myself"]["pods"][1]
    return {"query OnePod": {"data": {"pod": pod | {"id": POD, **changes}}}}


ANYWHERE = {"success", "error", "msg", "message", "detail", "retry_after", "new_contract", "errors", "data", "gpuTypes"}
"""Looked for in every answer, for it may be a refusal."""
VASTAI = (vastai_plugin, INSTANCE, "1234")
RUNPOD = (runpod_plugin, POD, "NVIDIA RTX A4000/COMMUNITY/1")
REST = (runpod_plugin, "7h9k2m4n6p", "NVIDIA GeForce RTX 4090/COMMUNITY/1")
GRAPHQL = [key for key in runpod() if not key.startswith("GET")]
VOLUME = vastai()["GET /charges/"]["results"][0] | {"type": "volume", "source": "volume-3"}
CHARGES = vastai()["GET /charges/"] | {"total": 1, "results": [VOLUME]}
RUNS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "vastai": [
        (VASTAI, vastai()),
        (VASTAI, without(vastai(), "reliability", "storage_total_cost", "cur_state")),
        (VASTAI, vastai() | {"GET /charges/": CHARGES}),
        (VASTAI, {key: {"success": False, "error": "no_such_ask", "msg": "gone"} for key in vastai()}),
    ],
    "runpod": [
        (RUNPOD, runpod()),
        (RUNPOD, runpod() | stopped()),
        (RUNPOD, runpod() | stopped(podType="RESERVED")),
        (RUNPOD, without(runpod(), "lastStartedAt") | {"query Balance": runpod()["query Balance"]}),
        (RUNPOD, {key: {"errors": [{"message": "no", "extensions": {"code": "RUNPOD"}}]} for key in GRAPHQL}),
        (REST, runpod_rest()),
        (REST, without(runpod_rest(), "startedAt")),
        (REST, {}),
    ],
}
MITHRIL = (mithril_plugin, BID, "us-central5-a/it_h100x8")
RUNS["mithril"] = [
    (MITHRIL, mithril()),
    (MITHRIL, {}),
    (MITHRIL, mithril() | {"POST /v2/spot/bids": recorded("mithril/error_422")}),
    (MITHRIL, mithril() | {"GET /v2/pricing/history": recorded("mithril/pricing_history")}),
    (MITHRIL, mithril() | {"GET /v2/instances?": {"data": [], "next_cursor": None}}),
]
PARTS = {"INBOX": "notifications[]."}
"""Rows that are compared one by one, each with a shape of its own."""


async def run(plugin: Any, instance_id: str, offer_id: str, bodies: dict[str, Any]) -> RecordedMarket:
    async with recorded_market(bodies) as market:
        given = {"base_url": market.url, "api_key": "k" * 20, "timeout_s": PATIENCE_S}
        provider = plugin.connect(given, ScaledClock(dt.datetime.now(dt.UTC), 100_000))
        try:
            await ask_everything(provider, instance_id, offer_id)
        finally:
            await provider.close()
        return market


@pytest.mark.parametrize(
    ("market", "module"), [("vastai", vastai_shapes), ("runpod", runpod_shapes), ("mithril", mithril_shapes)]
)
async def test_every_field_that_is_read_is_marked_so_and_no_other(
    market: str, module: ModuleType, reads: Reads
) -> None:
    for (plugin, instance_id, offer_id), bodies in RUNS[market]:
        await run(plugin, instance_id, offer_id, bodies)
    seen = reads.by_shape()
    wrong = {}
    for name, shape in shapes_of(module).items():
        if shape not in seen:
            continue
        marked = set(read_fields(shape))
        looked_at = {field for field in seen[shape] if not field.startswith(PARTS.get(name, "-"))}
        if looked_at - ANYWHERE != marked - ANYWHERE:
            wrong[name] = {"not marked": looked_at - marked - ANYWHERE, "not read": marked - looked_at - ANYWHERE}
    assert wrong == {}
    covered = set(seen) | {part for shape in seen for part in parts(shape)}
    assert [name for name, shape in shapes_of(module).items() if shape not in covered] == []
