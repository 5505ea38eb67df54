"""Who gets GPUs, and who has to go."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from autopilot_lab.sandbox.runpod.catalogue import default_catalogue
from autopilot_lab.sandbox.runpod.machines import Machine
from autopilot_lab.sandbox.runpod.placement import Tenant, evictions, free_gpus, price_to_win

SPEC = next(spec for spec in default_catalogue(1) if spec.gpu_count == 8 and spec.floor is not None)
MACHINE = Machine(SPEC, Decimal("0.10"))

bids = st.one_of(st.none(), st.integers(10, 60).map(lambda cents: Decimal(cents) / 100))


@st.composite
def full_houses(draw: st.DrawFn) -> list[Tenant]:
    tenants: list[Tenant] = []
    free = 8
    while free and draw(st.booleans()):
        count = draw(st.integers(1, free))
        tenants.append(Tenant(f"t{len(tenants)}", count, draw(bids), len(tenants)))
        free -= count
    return tenants


@given(full_houses(), st.integers(1, 8), bids)
def test_only_the_weaker_go_and_no_more_than_needed(tenants: list[Tenant], gpu_count: int, bid: Decimal | None) -> None:
    evicted = evictions(MACHINE, tenants, gpu_count, bid)
    weaker = [each for each in tenants if each.bid is not None and (bid is None or each.bid < bid)]
    if evicted is None:
        assert free_gpus(MACHINE, tenants) + sum(each.gpu_count for each in weaker) < gpu_count
        return
    assert set(evicted) <= set(weaker)
    stayed = [each for each in tenants if each not in evicted]
    assert free_gpus(MACHINE, stayed) >= gpu_count
    if evicted:
        assert free_gpus(MACHINE, [*stayed, evicted[-1]]) < gpu_count
        kept_bids = [each.bid for each in stayed if each.bid is not None]
        assert all(each.bid is not None and each.bid <= min(kept_bids, default=each.bid) for each in evicted)


@given(full_houses(), st.integers(1, 8))
def test_the_price_to_win_wins_and_a_cent_less_does_not(tenants: list[Tenant], gpu_count: int) -> None:
    price = price_to_win(MACHINE, tenants, gpu_count)
    if price is None:
        assert evictions(MACHINE, tenants, gpu_count, Decimal(100)) is None
        return
    assert evictions(MACHINE, tenants, gpu_count, price) is not None
    assert price >= Decimal("0.10")
    if price > Decimal("0.10"):
        assert evictions(MACHINE, tenants, gpu_count, price - Decimal("0.01")) is None


def test_without_a_floor_there_is_no_price() -> None:
    assert price_to_win(Machine(SPEC, None), [], 1) is None


def test_a_tie_stays() -> None:
    holder = Tenant("t", 8, Decimal("0.20"), 1)
    assert evictions(MACHINE, [holder], 1, Decimal("0.20")) is None
    assert evictions(MACHINE, [holder], 1, Decimal("0.21")) == (holder,)


def test_among_equals_the_latest_goes() -> None:
    first, second = Tenant("a", 4, Decimal("0.20"), 1), Tenant("b", 4, Decimal("0.20"), 2)
    assert evictions(MACHINE, [first, second], 4, None) == (second,)
