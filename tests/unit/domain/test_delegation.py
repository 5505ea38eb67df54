"""Who may make what, what is left of it, and who may confirm: by each right and by how far down the line it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.delegation import (
    OWNERS,
    Delegation,
    Settled,
    find_wider,
    inherit,
    made_under,
    may_confirm,
    narrow,
)
from autopilot.domain.token import PROXIED, Scope, Token
from tests.store_records import START

DAY = timedelta(days=1)
UID = 1000


def a_token(number: int = 2, **changes: Any) -> Token:
    token = Token(number, f"t{number}", str(number), Scope.ADMIN, False, ("hf",), START, START + DAY)
    return replace(token, **{"allowance": Decimal(5), "ask_above": Decimal(1)} | changes)


def a_user(**changes: Any) -> Token:
    return replace(Token(-UID, "alice", "", Scope.ADMIN, True, ("hf",), START, None), **changes)


MAKER = a_token(1)


def test_what_is_no_wider_may_be_made() -> None:
    assert find_wider(a_token(), [MAKER, a_user()]) is None
    less = a_token(scope=Scope.READ, secrets=(), allowance=Decimal(4), ask_above=Decimal(0), expires_at=START)
    assert find_wider(less, [MAKER]) is None
    assert find_wider(a_token(sees_all=True), [MAKER]) is None, "an admin sees all"
    assert find_wider(a_token(is_monthly=True), [a_token(1, is_monthly=True)]) is None


@pytest.mark.parametrize(
    ("wish", "maker", "wished", "has"),
    [
        ({}, {"scope": Scope.SUBMIT}, "the scope admin", "the scope submit"),
        (
            {"scope": Scope.READ, "sees_all": True},
            {"scope": Scope.SUBMIT},
            "sight of the whole account",
            "its own jobs",
        ),
        ({"secrets": ("aws", "hf")}, {}, "the secret 'aws'", "the secrets hf"),
        ({}, {"secrets": ()}, "the secret 'hf'", "none"),
        ({"expires_at": None}, {}, "an end that nothing sets", "one on 2026-11-21 09:30:00 UTC"),
        ({"expires_at": START + 2 * DAY}, {}, "an end on 2026-11-22 09:30:00 UTC", "one on 2026-11-21"),
        ({"allowance": Decimal("5.01")}, {}, "an allowance of $5.01 for its whole life", "$5.00 for its whole life"),
        ({"allowance": None}, {}, "an allowance of any amount", "one of $5.00"),
        ({"allowance": Decimal(1), "is_monthly": True}, {}, "an allowance of $1.00/month", "$5.00 for its whole life"),
        ({"ask_above": Decimal("1.01")}, {}, "to ask above $1.01", "to ask above $1.00"),
        ({"ask_above": None}, {}, "no need to ask", "to ask above $1.00"),
    ],
)
def test_what_is_wider_is_named_with_what_the_maker_has(
    wish: dict[str, Any], maker: dict[str, Any], wished: str, has: str
) -> None:
    found = find_wider(a_token(**wish), [a_token(1, **maker)])
    assert found is not None
    assert (wished in found.wished, has in found.has) == (True, True), found
    assert find_wider(a_token(**wish), [a_token(3, **wish), a_token(1, **maker)]) == found, "any maker above bounds it"


def test_a_wish_that_names_nothing_takes_the_least_of_its_makers() -> None:
    bare = Token(3, "t3", "3", Scope.READ, False, (), START, None)
    assert inherit(bare, []) == bare
    near, far = a_token(ask_above=None, is_monthly=False), a_token(1, allowance=Decimal(2), is_monthly=True)
    made = inherit(bare, [near, far])
    assert (made.allowance, made.is_monthly) == (Decimal(2), False), "both bounds hold at once"
    assert (made.ask_above, made.expires_at, made.secrets) == (Decimal(1), START + DAY, ())
    assert find_wider(made, [replace(near, ask_above=Decimal(1)), far]) is None
    own = replace(bare, allowance=Decimal(1), ask_above=Decimal(0), expires_at=START)
    assert inherit(own, [near, far]) == own


def test_what_is_left_of_a_wider_row_is_what_its_maker_has() -> None:
    wide = Token(3, "t3", "3", Scope.ADMIN, True, ("aws", "hf"), START, None)
    maker = a_token(1, scope=Scope.SUBMIT, revoked_at=START)
    left = narrow(wide, maker)
    assert (left.scope, left.sees_all, left.secrets) == (Scope.SUBMIT, False, ("hf",))
    assert (left.expires_at, left.revoked_at, left.ask_above) == (START + DAY, START, Decimal(1))
    assert narrow(a_token(3, scope=Scope.READ), maker).scope is Scope.READ


def a_line() -> list[Token]:
    """A user's, its own, and that one's; and another of the user's."""
    return [a_token(1, made_by=UID), a_token(2, made_by=-1), a_token(3, made_by=-2), a_token(4, made_by=UID)]


def test_the_line_and_the_family() -> None:
    tokens = a_line()
    known = Delegation(tokens)
    assert [token.number for token in known.makers(tokens[2])] == [2, 1]
    assert known.owners_above(tokens[2]) == {-2, -1, UID}
    assert known.family(-1) == {-1, -2, -3}
    assert known.family(UID) == {UID, -1, -2, -3, -4}
    assert known.family(-4) == {-4}
    assert known.most_open(-3, [-3, -2, -1, -1, -4, UID]) == 4
    assert known.most_open(-4, [-3, -2, -4]) == 1


@pytest.mark.parametrize("at", range(3))
def test_it_ends_with_each_of_its_makers(at: int) -> None:
    tokens = a_line()
    tokens[at] = replace(tokens[at], revoked_at=START)
    known = Delegation(tokens)
    assert [known.limit(token).is_in_force(START) for token in tokens] == [at > 0, at > 1, False, True]
    tokens[at] = replace(tokens[at], revoked_at=None, expires_at=START)
    assert not Delegation(tokens).limit(tokens[2]).is_in_force(START)


def test_a_maker_that_is_no_more_or_makes_itself_gives_nothing() -> None:
    orphan, ring = a_token(2, made_by=-9), [a_token(5, made_by=-6), a_token(6, made_by=-5)]
    known = Delegation([orphan, *ring])
    assert not any(known.limit(token).is_in_force(START) for token in (orphan, *ring))
    assert known.owners_above(orphan) == {-9}
    assert known.family(-5) == {-5, -6}


def test_a_user_bounds_what_they_made_and_it_ends_with_their_entry() -> None:
    free, limited, old = a_token(1, made_by=UID), a_token(2, made_by=UID, made_under=OWNERS), a_token(3)
    settled = Settled((a_user(scope=Scope.READ, ask_above=Decimal("0.5")),))
    for token in (free, limited):
        bounded = Delegation([free, limited, old], settled).limit(token)
        assert (bounded.scope, bounded.ask_above) == (Scope.READ, Decimal("0.5"))
    without_settings = Delegation([free, limited, old])
    assert [without_settings.limit(token).is_in_force(START) for token in (free, limited, old)] == [True, False, True]
    assert without_settings.limit(old) == old, "of a ledger of before: a user of the socket made it"
    mapped = a_user(name=PROXIED + "bob", scope=Scope.SUBMIT)
    made = a_token(4, made_by=UID, made_under=made_under(mapped))
    assert Delegation([made], Settled((), (mapped,))).limit(made).scope is Scope.SUBMIT
    assert not Delegation([made], settled).limit(made).is_in_force(START), "another of that user's is not its maker"


def test_which_entry_bounded_a_maker() -> None:
    row = a_token(7, name=PROXIED + "carol")
    makers = (None, a_user(), a_user(name=PROXIED + "bob"), MAKER)
    assert [made_under(maker) for maker in makers] == ["", OWNERS, "proxy:bob", ""]
    assert made_under(row) == "", "the ledger has its row"


def test_neither_who_asked_nor_what_they_made_confirms() -> None:
    tokens = a_line()
    known = Delegation(tokens)
    above: dict[int, frozenset[int]] = {token.owner: known.owners_above(token) for token in tokens}
    above[UID] = frozenset()
    allowed = {asker: [who for who in above if may_confirm(who, above[who], asker)] for asker in above}
    assert allowed == {-1: [-4, UID], -2: [-1, -4, UID], -3: [-1, -2, -4, UID], -4: [-1, -2, -3, UID], UID: []}
