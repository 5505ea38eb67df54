"""Recorded answers with one field changed, over real sockets to the real SDKs.

Each change of a field that is read is noticed. None makes a machine vanish from the list, and none makes a bill more
than it is: the list is whole or the market unknown.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from autopilot.clock import ScaledClock
from autopilot.domain.drift import Drift
from autopilot.domain.instance import Charge, Instance
from autopilot.domain.lease import LeaseState
from autopilot.domain.ledger import SPEND_TYPES, InvoiceLine, LedgerEntry
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.engine.invoices import reconcile
from autopilot.ports.provider import CreateRequest, Done, KeptLogin, MarketUnknown, Plugin, Provider, Refused, Unknown
from autopilot.providers.drift.comparison import compare
from autopilot.providers.drift.shape import LIST, NULL, NUMBER, OBJECT, TEXT, AnswerShape, Field
from autopilot.providers.mithril import plugin as mithril_plugin
from autopilot.providers.mithril import shapes as mithril_shapes
from autopilot.providers.runpod import plugin as runpod_plugin
from autopilot.providers.runpod import shapes as runpod_shapes
from autopilot.providers.vastai import plugin as vastai_plugin
from autopilot.providers.vastai import shapes as vastai_shapes
from tests.builders import a_lease, at
from tests.integration.wire.recorded_market import (
    BID,
    INSTANCE,
    POD,
    RecordedMarket,
    mithril,
    recorded_market,
    runpod,
    runpod_rest,
    vastai,
)
from tests.patience import PATIENCE_S
from tests.variants import first_of

DAY = dt.date(2026, 1, 1)
QUERY = OfferQuery(
    gpus=(("RTX 4090", 1), ("RTX A4000", 1), ("H100", 8)),
    min_vram_gb=Decimal(0),
    disk_gb=Decimal(20),
    verified_only=False,
    datacenter_only=False,
)
Ask = Callable[[Provider], Awaitable[Any]]
Path = tuple[str | int, ...]


def rent(offer_id: str, capacity_type: CapacityType = CapacityType.SPOT) -> Ask:
    request = CreateRequest(
        label="ap1.abcdefgh.01KDVDNRY4R11887CN5CG1S8J6",
        offer_id=offer_id,
        machine_id="1",
        capacity_type=capacity_type,
        bid=Decimal("0.165"),
        image="some/image:1",
        disk_gb=Decimal(20),
        env={},
        onstart="true",
    )
    return lambda provider: provider.create(request)


@dataclass(frozen=True)
class Answer:
    """One kind of answer of a recorded market, its shape, and the question that brings it."""

    market: str
    body: str
    shape: AnswerShape
    ask: Ask


PLUGINS: dict[str, tuple[Plugin, Callable[[], dict[str, Any]]]] = {
    "vastai": (vastai_plugin, vastai),
    "runpod": (runpod_plugin, runpod),
    "runpod over REST": (runpod_plugin, runpod_rest),
    "mithril": (mithril_plugin, mithril),
}


async def instances(provider: Provider) -> Any:
    return await provider.instances()


async def charges(provider: Provider) -> Any:
    return await provider.charges(DAY, DAY + dt.timedelta(days=700))


async def offers(provider: Provider) -> Any:
    return await provider.offers(QUERY)


async def past_prices(provider: Provider) -> Any:
    until = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    return await provider.past_prices(QUERY, until - dt.timedelta(days=2), until)


async def account(provider: Provider) -> Any:
    return await provider.account()


async def logins(provider: Provider) -> Any:
    assert provider.kept_logins is not None
    return await provider.kept_logins.list()


async def gpu_names(provider: Provider) -> Any:
    return await provider.gpu_names()


def one(instance_id: str) -> Ask:
    return lambda provider: provider.instance(instance_id)


V, R, M = vastai_shapes, runpod_shapes, mithril_shapes
REST_ID = "7h9k2m4n6p"
POOL = "NVIDIA RTX A4000/COMMUNITY/1"
_NOTICES = replace(V.INBOX.fields["notifications"], inside=V.OUTBID_NOTICE)
INBOX = replace(V.INBOX, fields={**V.INBOX.fields, "notifications": _NOTICES})
"""Its rows are compared one by one, each with the shape of its kind."""
ANSWERS = [
    Answer("vastai", "GET /api/v1/instances/", V.INSTANCE_PAGE, instances),
    Answer("vastai", "GET /instances/", V.ONE_INSTANCE, one(INSTANCE)),
    Answer("vastai", "GET /charges/", V.CHARGE_PAGE, charges),
    Answer("vastai", "GET /users/current", V.ACCOUNT, account),
    Answer("vastai", "POST /bundles/ bid", V.OFFERS, offers),
    Answer("vastai", "POST /bundles/ on-demand", V.OFFERS, offers),
    Answer("vastai", "GET /gpu_names/unique/", V.GPU_NAMES, gpu_names),
    Answer("vastai", "GET /notifications/inbox/", INBOX, instances),
    Answer("vastai", "PUT /asks/", V.CREATED, rent("29332107")),
    Answer("vastai", "PUT /instances/bid_price/", V.CHANGED, lambda p: p.change_bid(INSTANCE, Decimal("0.3"))),
    Answer("vastai", "PUT /instances/", V.CHANGED, lambda p: p.start(INSTANCE)),
    Answer("vastai", "DELETE /instances/", V.CHANGED, lambda p: p.destroy(INSTANCE)),
    Answer("runpod", "query Sweep", R.SWEEP, instances),
    Answer("runpod", "query OnePod", R.ONE_POD, one(POD)),
    Answer("runpod", "query Balance", R.BALANCE, account),
    Answer("runpod", "query Prices", R.PRICES, offers),
    Answer("runpod", "GET /v2/billing/pods", R.BILLS, charges),
    Answer("runpod", "GET /v2/registries", R.LOGINS, logins),
    Answer("runpod", "mutation RentSpot", R.SPOT_RENTED, rent(POOL)),
    Answer("runpod over REST", "GET /v2/pods", R.REST_PODS, instances),
    Answer("runpod over REST", "GET /v2/pods/", R.REST_POD, one(REST_ID)),
    Answer(
        "runpod over REST", "POST /v2/pods", R.REST_POD, rent("NVIDIA RTX A4000/COMMUNITY/1", CapacityType.ON_DEMAND)
    ),
    Answer("runpod over REST", "GET /v2/catalog/gpus?include", R.REST_PRICES, offers),
    Answer("mithril", "GET /v2/spot/bids?", M.BIDS, instances),
    Answer("mithril", "GET /v2/instances?", M.INSTANCES, instances),
    Answer("mithril", f"GET /v2/spot/bids/{BID}", M.BID, one(BID)),
    Answer("mithril", "GET /v2/pricing/current", M.PRICES, offers),
    Answer("mithril", "GET /v2/pricing/history", M.HISTORY, past_prices),
    Answer("mithril", "POST /v2/spot/bids", M.BID, rent("us-central5-a/it_h100x8")),
]


@dataclass(frozen=True)
class Change:
    """``place``: of the field, as the answer and its path there; ``is_among_others``: what is beside it
    does not matter."""

    path: Path
    place: tuple[str, str]
    field: Field
    is_among_others: bool


def fields_of(shape: AnswerShape, body: Any, path: Path = (), answer: str = "", prefix: str = "") -> Iterator[Change]:
    """Each field of the shape that the body has, of each list the first row."""
    answer, prefix = (shape.answer, "") if shape.answer else (answer, prefix)
    for name, field in shape.fields.items():
        if name not in body:
            continue
        yield Change((*path, name), (answer, prefix + name), field, shape.is_open)
        inner: Any = body[name]
        is_list = isinstance(inner, list)
        if field.inside is None or not inner:
            continue
        where: Path = (*path, name, 0) if is_list else (*path, name)
        yield from fields_of(
            field.inside, inner[0] if is_list else inner, where, answer, f"{prefix}{name}{'[]' * is_list}."
        )


OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "an object": lambda value: {"value": value},
    "a list": lambda value: [value],
    "a text": lambda value: f"about {value}",
    "a number as text": str,
    "a number": lambda _: 3,
    "null": lambda _: None,
    "an unknown word": lambda _: "in hibernation",
}
"""A value in place of the one that was there."""


def changed(body: Any, path: Path, what: str) -> Any:
    """The body with that one field dropped, renamed, or of another kind or value."""
    made = copy.deepcopy(body)
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    name = path[-1]
    match what:
        case "dropped":
            del parent[name]
        case "renamed":
            parent[f"{name}_v"] = parent.pop(name)
        case "one more beside it":
            parent["surcharge"] = 0.25
        case _:
            parent[name] = OTHERWISE[what](parent[name])
    return made


def changes_of(change: Change) -> Iterator[str]:
    yield "dropped"
    if not change.is_among_others:
        yield from ("renamed", "one more beside it")
    field, kinds = change.field, change.field.kinds
    for what, kind in (("an object", OBJECT), ("a list", LIST), ("a text", TEXT), ("a number", NUMBER), ("null", NULL)):
        if kind not in kinds:
            yield what
    if NUMBER in kinds and TEXT not in kinds:
        yield "a number as text"
    if field.words or field.form is not None:
        yield "an unknown word"


ALIKE = {"notice": "outbid notice"}


def is_noticed(drifts: tuple[Drift, ...], change: Change, what: str) -> bool:
    # A notice that does not say that it is an outbid's is compared as any other.
    names = {(ALIKE.get(drift.answer, drift.answer), drift.field) for drift in drifts if drift.is_read}
    others = {
        (ALIKE.get(drift.answer, drift.answer), drift.field.rpartition(".")[2]) for drift in drifts if not drift.is_read
    }
    if what == "one more beside it":
        return (change.place[0], "surcharge") in others
    if change.field.may_be_missing and what in ("dropped", "renamed"):
        return what == "dropped" or (change.place[0], f"{change.path[-1]}_v") in others
    return change.place in names


@asynccontextmanager
async def provider_at(plugin: Plugin, market: RecordedMarket) -> Any:
    given = {"base_url": market.url, "api_key": "k" * 20, "timeout_s": PATIENCE_S}
    provider = plugin.connect(given, ScaledClock(dt.datetime.now(dt.UTC), 100_000))
    try:
        yield provider
    finally:
        await provider.close()


async def answer_of(plugin: Plugin, market: RecordedMarket, ask: Ask) -> tuple[Any, tuple[Drift, ...]]:
    async with provider_at(plugin, market) as provider:
        try:
            return await ask(provider), provider.drifts()
        except MarketUnknown as problem:
            return problem, provider.drifts()


def wrong(before: Any, after: Any) -> str:
    """What must not have become of an answer; empty when it is as it was, or the market unknown."""
    if isinstance(after, MarketUnknown):
        return ""
    if isinstance(before, (Done, Refused, Unknown)):
        return "" if isinstance(after, (Done, Refused, Unknown)) else f"no outcome: {after!r}"
    if isinstance(before, Instance):
        return "" if after is not None and after.instance_id == before.instance_id else "the machine is gone"
    if before and isinstance(before[0] if isinstance(before, tuple) else None, Instance):
        ids = [each.instance_id for each in after]
        return "" if ids == [each.instance_id for each in before] else f"of the machines are left: {ids}"
    if before and isinstance(before[0] if isinstance(before, tuple) else None, Charge):
        total, billed = (sum(each.amount for each in charged) for charged in (before, after))
        return "" if total == billed else f"billed {billed} of {total}"
    if before and isinstance(before[0] if isinstance(before, tuple) else None, KeptLogin):
        return "" if after == before else f"the logins are {after}"
    return ""


def named(answer: Answer) -> str:
    return f"{answer.market}: {answer.body}"


@pytest.mark.slow
@pytest.mark.parametrize("one_of", first_of((5, 1)))
@pytest.mark.parametrize("answer", ANSWERS, ids=named)
async def test_a_changed_field_that_is_read_is_noticed_and_does_no_harm(answer: Answer, one_of: int) -> None:
    """``one_of``: so many changes each is tried, another one of each field."""
    plugin, bodies = PLUGINS[answer.market]
    body = bodies()[answer.body]
    problems = []
    tried = 0
    async with recorded_market(bodies()) as market:
        before, nothing = await answer_of(plugin, market, answer.ask)
        assert not isinstance(before, MarketUnknown)
        assert nothing == ()
        assert answer.body in market.asked
        for number, change in enumerate(each for each in fields_of(answer.shape, body) if each.field.is_read):
            changes = list(changes_of(change))
            for what in changes[number % min(one_of, len(changes)) :: one_of]:
                tried += 1
                market.bodies[answer.body] = changed(body, change.path, what)
                after, drifts = await answer_of(plugin, market, answer.ask)
                if not is_noticed(drifts, change, what):
                    problems.append(f"{change.place} {what}: not noticed, but {[d.key for d in drifts]}")
                if harm := wrong(before, after):
                    problems.append(f"{change.place} {what}: {harm}")
    assert tried
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS, ids=named)
def test_a_changed_field_that_is_only_known_is_noticed_as_that(answer: Answer) -> None:
    body = PLUGINS[answer.market][1]()[answer.body]
    problems = []
    for change in [each for each in fields_of(answer.shape, body) if not each.field.is_read]:
        for what in changes_of(change):
            differences = compare(answer.shape, changed(body, change.path, what))
            if any(difference.is_read for difference in differences):
                problems.append(f"{change.place} {what}: taken for one that is read")
            if not differences and not (what == "dropped" and change.field.may_be_missing):
                problems.append(f"{change.place} {what}: not noticed")
    assert problems == []


def spent(looks: list[tuple[Charge, ...]]) -> Decimal:
    """What the ledger of the recorded machine comes to after these looks at its bill, days after its end."""
    lease = a_lease(state=LeaseState.GONE, gone_at=at(3600), instance_id=INSTANCE)
    lines: dict[str, InvoiceLine] = {}
    entries: dict[str, LedgerEntry] = {}
    for number, charged in enumerate(looks):
        now = at(3600) + dt.timedelta(days=4 + number)
        looked = reconcile(lease, entries.values(), lines.values(), charged, now)
        lines |= {line.id: line for line in looked.lines}
        entries |= {entry.id: entry for entry in looked.entries}
    return sum((entry.amount for entry in entries.values() if entry.type in SPEND_TYPES), Decimal(0))


@pytest.mark.parametrize("item", range(4), ids=["gpu", "disk", "bwd", "bwu"])
async def test_a_kind_of_cost_under_another_name_is_not_billed_twice(item: int) -> None:
    bodies = vastai()
    async with recorded_market(bodies) as market:
        before, _ = await answer_of(vastai_plugin, market, charges)
        market.bodies["GET /charges/"]["results"][0]["items"][item] |= {"type": "usage", "amount": 0.2}
        after, drifts = await answer_of(vastai_plugin, market, charges)
    assert spent([before, before]) == Decimal("0.43")
    assert [drift.field for drift in drifts if drift.is_money] == ["type"]
    assert isinstance(after, MarketUnknown), f"the ledger comes to {spent([before, before, after, after])}"


async def test_a_fee_beside_all_that_is_always_billed_is_billed() -> None:
    async with recorded_market(vastai()) as market:
        items = market.bodies["GET /charges/"]["results"][0]["items"]
        items.append(items[0] | {"type": "surcharge", "amount": 0.2})
        after, drifts = await answer_of(vastai_plugin, market, charges)
    assert spent([after, after]) == Decimal("0.63")
    assert [drift.field for drift in drifts] == ["type"]
