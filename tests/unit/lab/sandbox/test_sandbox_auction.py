from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from autopilot_lab.sandbox.market.auction import Claim, allocate

GPUS = st.frozensets(st.integers(0, 3), min_size=1)
PRICES = st.one_of(st.none(), st.integers(1, 12).map(lambda cents: Fraction(cents, 100)))


@st.composite
def books(draw: st.DrawFn) -> list[Claim]:
    """Claims in order of arrival; those marked as incumbents do not overlap, as in a running market."""
    claims: list[Claim] = []
    held: set[int] = set()
    for arrival in range(draw(st.integers(0, 7))):
        gpus = draw(GPUS)
        incumbent = draw(st.booleans()) and held.isdisjoint(gpus)
        held |= gpus if incumbent else set()
        claims.append(Claim(f"c{arrival}", gpus, draw(PRICES), incumbent, arrival))
    return claims


FLOORS = st.integers(0, 8).map(lambda cents: Fraction(cents, 100))


@given(books(), FLOORS)
def test_no_gpu_is_given_twice(claims: list[Claim], floor: Fraction) -> None:
    winners = allocate(claims, floor)
    held = [gpu for claim in claims if claim.key in winners for gpu in claim.gpu_ids]
    assert len(held) == len(set(held))


@given(books(), FLOORS)
def test_who_loses_is_below_the_floor_or_meets_a_stronger_winner(claims: list[Claim], floor: Fraction) -> None:
    winners = allocate(claims, floor)
    for loser in (claim for claim in claims if claim.key not in winners):
        below = loser.price_per_gpu is not None and loser.price_per_gpu < floor
        stronger = [
            claim
            for claim in claims
            if claim.key in winners and not claim.gpu_ids.isdisjoint(loser.gpu_ids) and claim.rank < loser.rank
        ]
        assert below or stronger


@given(books(), FLOORS)
def test_no_winner_bids_below_the_floor(claims: list[Claim], floor: Fraction) -> None:
    winners = allocate(claims, floor)
    assert all(claim.price_per_gpu is None or claim.price_per_gpu >= floor for claim in claims if claim.key in winners)


@given(books(), FLOORS, GPUS)
def test_on_demand_beats_every_bid(claims: list[Claim], floor: Fraction, gpus: frozenset[int]) -> None:
    bids = [claim for claim in claims if claim.price_per_gpu is not None]
    newcomer = Claim("on-demand", gpus, None, False, 99)
    assert "on-demand" in allocate([*bids, newcomer], floor)


@given(st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_the_higher_bid_wins_and_ties_go_to_the_incumbent(old: int, new: int, newcomer_first: bool) -> None:
    gpus = frozenset({1})
    incumbent = Claim("old", gpus, Fraction(old, 100), True, 2)
    newcomer = Claim("new", gpus, Fraction(new, 100), False, 1)
    claims = [newcomer, incumbent] if newcomer_first else [incumbent, newcomer]
    assert allocate(claims, Fraction(0)) == {"new" if new > old else "old"}


def test_an_on_demand_incumbent_stays() -> None:
    gpus = frozenset({1, 2})
    claims = [Claim("first", gpus, None, True, 5), Claim("earlier", gpus, None, False, 1)]
    assert allocate(claims, Fraction(0)) == {"first"}


def test_prices_compare_per_gpu() -> None:
    whole = Claim("whole", frozenset({1, 2}), Fraction(30, 100) / 2, True, 1)
    single = Claim("single", frozenset({2}), Fraction(20, 100), False, 2)
    assert allocate([whole, single], Fraction(0)) == {"single"}
