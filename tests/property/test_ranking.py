"""The lazy ranking of many offers gives what pricing all of them exactly gives, in the same order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

from autopilot.domain.hosts import HostRecord, KnownHosts
from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.market import Market, ProviderView
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.outlook import Lives, Outlook
from autopilot.domain.params import Params
from autopilot.engine.outlook import best_of_each
from autopilot.policy.decide import decide
from autopilot.policy.eligibility import Eligibility
from autopilot.pricing.rule import ranking
from autopilot.pricing.rule.candidates import Candidates
from autopilot.pricing.rule.cost import Pricing, price_candidates
from autopilot.pricing.rule.ranking import rank
from tests.builders import HOUR, START, D, a_checkpoint, a_job, a_lease, a_spec, an_offer, capabilities

P = Params()
MARKETS = ("vastai", "other")
GPUS = ("RTX 4090", "A100")


def money(rng: Random, low: float, high: float, places: int = 4) -> Decimal:
    return D(f"{rng.uniform(low, high):.{places}f}")


def an_offer_of(rng: Random, number: int) -> Offer:
    """Few prices, so that many are equal, and some that are missing, free or absurd."""
    return an_offer(
        f"m{number}" if rng.random() < 0.95 else "m0",
        provider=rng.choice(MARKETS),
        host_id=f"h{rng.randrange(20)}",
        gpu=rng.choice(GPUS),
        num_gpus=rng.choice((1, 1, 2)),
        floor=rng.choice((None, D(0), money(rng, 0.1, 0.5, 2), money(rng, 0.1, 0.5, 9), D("0.2"))),
        on_demand_price=rng.choice((None, money(rng, 0.2, 0.8, 2), money(rng, 0.2, 0.8, 9), D("0.6"))),
        storage_price=rng.choice((D(0), D("0.15"), money(rng, 0, 2), D(10_000))),
        upload_price=rng.choice((D(0), money(rng, 0, 0.02))),
        download_price=rng.choice((D(0), money(rng, 0, 0.02))),
        download_mbps=rng.choice((D(0), D(3), D(800), money(rng, 1, 2000))),
        reliability=rng.choice((D(0), D("0.99"), money(rng, 0.5, 1))),
        verified=rng.random() < 0.9,
        ends_at=rng.choice((None, START + timedelta(hours=rng.uniform(0, 90)))),
    )


def lives_of(rng: Random) -> dict[tuple[str, str, str], Lives]:
    found = {}
    for kind, names in (("gpu", GPUS), ("host", [f"h{n}" for n in range(9)]), ("machine", [f"m{n}" for n in range(9)])):
        for name in names:
            if rng.random() < 0.5:
                lives = Lives()
                for _ in range(rng.randrange(8)):
                    lives = lives.with_run(rng.uniform(0, 40), lost=rng.random() < 0.5)
                found[rng.choice(MARKETS), kind, name] = lives
    return found


def hosts_of(rng: Random) -> dict[tuple[str, str], HostRecord]:
    """Some that never came up, some that are slow, load slowly or are blocked."""
    found = {}
    for number in range(0, 40, 3):
        launches = rng.choice((0.0, 1.0, rng.uniform(0, 9)))
        record = HostRecord(
            rng.choice(MARKETS),
            f"m{number}",
            f"h{rng.randrange(20)}",
            rng.choice(GPUS),
            START,
            launches=launches,
            failed=rng.choice((0.0, launches, launches / 2)),
            pace=rng.choice((None, None, 0.1, rng.uniform(0.05, 1))),
            loads=rng.choice(((), ((a_spec().image, 20), (a_spec().image, rng.randrange(4000))))),
            blocked_at=rng.choice((None, None, None, START)),
        )
        found[record.key] = record
    return found


def a_market_of(rng: Random, size: int) -> Market:
    def view() -> ProviderView:
        names = ("spot", "on_demand", "pauses_when_outbid", "keeps_disk_when_stopped", "bills_at_bid", "is_pooled")
        able = capabilities(**{name: rng.random() < 0.8 for name in names})
        return ProviderView(able, rng.random() < 0.9, rng.choice((None, D(5), D("0.3"), D(0))))

    offers = tuple(an_offer_of(rng, number) for number in range(size))
    avoid = frozenset((rng.choice(MARKETS), f"m{rng.randrange(size)}") for _ in range(3))
    listed = MARKETS if rng.random() < 0.9 else MARKETS[:1]
    outlook = Outlook(lives=lives_of(rng) if rng.random() < 0.7 else {})
    hosts = KnownHosts.of(hosts_of(rng)) if rng.random() < 0.7 else KnownHosts()
    return Market({name: view() for name in listed}, offers, START, avoid, outlook=outlook, hosts=hosts)


def a_job_of(rng: Random) -> Job:
    held = [a_lease("lease-1", machine_id="m1")] if rng.random() < 0.4 else []
    spec = a_spec(
        gpus=tuple(replace(a_spec().gpus[0], name=name, count=count) for name, count in zip(GPUS, (1, 2), strict=True)),
        disk_gb=rng.choice((D(20), D(400))),
        work_estimate=rng.choice((None, HOUR, timedelta(hours=rng.uniform(0, 40)))),
        spot_policy=rng.choice((SpotPolicy.AUTO, SpotPolicy.AUTO, *SpotPolicy)),
        max_hourly=rng.choice((None, money(rng, 0.1, 1))),
        max_bid=rng.choice((None, money(rng, 0.1, 1))),
        max_rate=rng.choice((None, money(rng, 0.1, 1))),
        budget=rng.choice((None, D(40), D("0.5"))),
        inputs_gb=rng.choice((D(0), D(30))),
    )
    checkpoint = a_checkpoint(a_lease(), 1) if rng.random() < 0.3 else None
    return a_job(*held, spec=spec, checkpoint=checkpoint)


@pytest.fixture
def always_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are but a few offers; and the bounds are sorted in two parts."""
    monkeypatch.setattr(ranking, "FEW", 5)


@pytest.mark.slow
@pytest.mark.usefixtures("always_lazy")
@pytest.mark.parametrize("seed", range(60))
def test_a_lazy_ranking_is_the_exact_one(seed: int) -> None:
    rng = Random(seed)
    market, job = a_market_of(rng, rng.choice((6, 40, 150))), a_job_of(rng)
    check = Eligibility(job, market, START, P)
    exact = price_candidates(job, market, filter(check.holds, market.offers), P)
    lazy = rank(job, market, check.holds, P)
    for kind in CapacityType:
        assert lazy.best(kind) == next((c for c in exact if c.capacity_type is kind), None)
    assert lazy.best() == next(iter(exact), None)
    assert bool(lazy) == bool(exact)
    assert list(lazy) == exact
    assert list(lazy) == exact, "gone through again"
    cheap = lazy.where(lambda candidate: candidate.bid < D("0.4"))
    assert list(cheap) == [candidate for candidate in exact if candidate.bid < D("0.4")]


@pytest.mark.usefixtures("always_lazy")
@pytest.mark.parametrize("seed", range(200, 220))
def test_what_tables_are_made_for_is_the_same_by_the_exact_path(seed: int) -> None:
    rng = Random(seed)
    market, job = a_market_of(rng, rng.choice((6, 40, 150))), a_job_of(rng)
    exact = price_candidates(job, market, filter(Eligibility(job, market, START, P).holds, market.offers), P)
    best = best_of_each(job, market, START, P)
    for kind in CapacityType:
        of_kind = [candidate for candidate in exact if candidate.capacity_type is kind]
        found = [candidate for candidate in best if candidate.capacity_type is kind]
        assert found[:1] == of_kind[:1]
        assert {each.offer.provider for each in found} == {each.offer.provider for each in of_kind}
        assert found == sorted(found, key=lambda candidate: candidate.sort_key)


@pytest.mark.parametrize("seed", range(100, 130))
def test_decisions_are_those_of_the_exact_path(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    market, job = a_market_of(rng, 90), a_job_of(rng)
    lazy = decide(job, market, START, P)
    monkeypatch.setattr(ranking, "FEW", len(market.offers))
    assert decide(job, market, START, P) == lazy


@pytest.mark.usefixtures("always_lazy")
def test_the_cheapest_is_found_without_pricing_all(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = tuple(an_offer(f"m{number}", floor=D("0.2") + D(number) / 1000) for number in range(200))
    market = Market({"vastai": ProviderView(capabilities(), True, None)}, offers, START)
    priced = []
    whole = Pricing.of

    def count(self: Pricing, offer: Offer, kind: CapacityType) -> object:
        priced.append(offer)
        return whole(self, offer, kind)

    monkeypatch.setattr(Pricing, "of", count)
    best = rank(a_job(), market, lambda _: True, P).best(CapacityType.SPOT)
    assert best is not None
    assert best.offer.machine_id == "m0"
    assert len(priced) < 10


def test_candidates_of_a_list_keep_its_order() -> None:
    market = a_market_of(Random(3), 50)
    found = price_candidates(a_job_of(Random(4)), market, market.offers[:0], P)
    assert not Candidates.of(found)
    assert Candidates.of(found).best() is None
