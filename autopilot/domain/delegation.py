"""Who made which token, and what follows: nothing that is made is wider than its maker, and it ends with its maker.

A maker is a token, a user of the control socket, or a proxy's user. What a token may do is what its own row says, as
far as each of its makers may do it now: settings that give a maker less give less to all that it has made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from autopilot.domain.money import show
from autopilot.domain.token import PROXIED, Scope, Token, is_of_token

OWNERS = "owners"
"""A token's ``made_under``, where ``[owners]`` bound its maker."""


class Settled(NamedTuple):
    """Users whom the settings limit and whom the ledger does not keep."""

    users: tuple[Token, ...] = ()
    """Users of the control socket, in ``[owners]``."""
    proxied: tuple[Token, ...] = ()
    """Whom a proxy vouches for, and whose jobs are those of a user of this machine."""

    def names(self) -> frozenset[str]:
        """Names of all of them, as in ``Delegation.bound_by``."""
        return frozenset(f"{each.owner} {made_under(each)}" for each in (*self.users, *self.proxied))

    def user(self, uid: int) -> Token | None:
        """None: nothing limits them."""
        return next((user for user in self.users if user.owner == uid), None)


NO_LIMITED_USERS = Settled()
"""The settings limit no user."""


class Wider(NamedTuple):
    """A right that a token was to have, and that its maker does not have."""

    wished: str
    """As in "it would have …"."""
    has: str
    """As in "its maker has …"."""


def made_under(maker: Token | None) -> str:
    """Which entry of the settings limits the maker of a token; empty: none, or the ledger has their row."""
    if maker is None or not maker.is_of_user:
        return ""
    return maker.name if maker.is_proxied else OWNERS


def inherit(wish: Token, makers: Sequence[Token]) -> Token:
    """``wish`` with its makers' bounds where it names none: the least of each."""
    ends = [maker.expires_at for maker in makers if maker.expires_at is not None]
    asks = [maker.ask_above for maker in makers if maker.ask_above is not None]
    if wish.expires_at is None:
        wish = replace(wish, expires_at=min(ends, default=None))
    if wish.ask_above is None:
        wish = replace(wish, ask_above=min(asks, default=None))
    of = [(maker.allowance, maker.is_monthly) for maker in makers if maker.allowance is not None]
    if wish.allowance is None and of:
        # One for a whole life and one for each month hold together: the smaller amount, and no renewal.
        wish = replace(wish, allowance=min(amount for amount, _ in of), is_monthly=all(renews for _, renews in of))
    return wish


def find_wider(wish: Token, makers: Iterable[Token]) -> Wider | None:
    """The first right of ``wish`` that one of its makers does not have. Bounds that it does not name count as none."""
    return next((found for maker in makers if (found := _find_wider(wish, maker)) is not None), None)


def _find_wider(wish: Token, maker: Token) -> Wider | None:
    if not maker.scope.covers(wish.scope):
        return Wider(f"the scope {wish.scope}", f"the scope {maker.scope}")
    if wish.sees_all and not _sees_all(maker):
        return Wider("sight of the whole account", "sight of its own jobs alone")
    if more := [name for name in wish.secrets if name not in maker.secrets]:
        return Wider(f"the secret {more[0]!r}", f"the secrets {', '.join(maker.secrets)}" if maker.secrets else "none")
    if _is_later(wish.expires_at, maker.expires_at):
        return Wider(f"an end {_until(wish.expires_at)}", f"one {_until(maker.expires_at)}")
    if maker.allowance is not None and _is_more(wish, maker.allowance, maker.is_monthly):
        return Wider(f"an allowance of {_allowance(wish)}", f"one of {_allowance(maker)}")
    if maker.ask_above is not None and (wish.ask_above is None or wish.ask_above > maker.ask_above):
        return Wider(_asking(wish.ask_above), f"to ask above {show(maker.ask_above)}")
    return None


def narrow(token: Token, maker: Token) -> Token:
    """``token`` as far as ``maker`` may do the same, and for as long. Their allowances are two, and both hold."""
    return replace(
        token,
        scope=token.scope if maker.scope.covers(token.scope) else maker.scope,
        sees_all=token.sees_all and _sees_all(maker),
        secrets=tuple(name for name in token.secrets if name in maker.secrets),
        expires_at=_first(token.expires_at, maker.expires_at),
        revoked_at=_first(token.revoked_at, maker.revoked_at),
        ask_above=_least(token.ask_above, maker.ask_above),
    )


def may_confirm(confirmer: int, makers: Collection[int], asker: int) -> bool:
    """Whether it is another who confirms. ``makers``: the owners of all that made the confirmer's token."""
    return asker != confirmer and asker not in makers


class Delegation:
    """All tokens, by who made whom."""

    def __init__(self, tokens: Iterable[Token], settled: Settled = NO_LIMITED_USERS) -> None:
        self._tokens = {token.owner: token for token in tokens}
        self._users = {user.owner: user for user in settled.users}
        self._proxied = {(user.owner, user.name): user for user in settled.proxied}
        self._made: dict[int, list[Token]] = defaultdict(list)
        for token in self._tokens.values():
            if token.made_by is not None:
                self._made[token.made_by].append(token)

    def limit(self, token: Token) -> Token:
        """As all of its makers leave it; ended where one of them has, or is no more."""
        (bounded, *_), _ = self._line(token)
        return bounded

    def makers(self, token: Token) -> tuple[Token, ...]:
        """Those that bound it, the nearest first, each as bounded as it is itself."""
        line, _ = self._line(token)
        return tuple(line[1:])

    def owners_above(self, token: Token) -> frozenset[int]:
        """Owners of all its makers, including those that have no limits, or no longer exist."""
        line, last = self._line(token)
        owners = {maker.owner for maker in line[1:]}
        return frozenset(owners if last is None else {*owners, last})

    def bound_by(self, token: Token) -> str:
        """The maker whom the settings limit, named as in ``Settled.names``; empty: none."""
        while token.made_by is not None and (maker := self._tokens.get(token.made_by)) is not None:
            if maker.is_proxied:
                return f"{maker.owner} {maker.name}"
            token = maker
        return f"{token.made_by} {token.made_under}" if token.made_under else ""

    def made_by(self, owner: int) -> tuple[Token, ...]:
        """All tokens that this owner has made, and that those have made."""
        found: dict[int, Token] = {}
        waiting = list(self._made[owner])
        while waiting:
            token = waiting.pop()
            if token.number not in found and token.owner != owner:
                found[token.number] = token
                waiting += self._made[token.owner]
        return tuple(found[number] for number in sorted(found))

    def family(self, owner: int) -> frozenset[int]:
        """Owners whose spend counts in this one's allowance."""
        return frozenset({owner, *(token.owner for token in self.made_by(owner))})

    def most_open(self, owner: int, owners: Iterable[int]) -> int:
        """How many jobs its token has, or the one of its makers that has the most with all that it made.

        ``owners``: of all open jobs. A token that makes others makes no more room for its jobs.
        """
        jobs = Counter(owners)
        token = self._tokens.get(owner)
        above = () if token is None else self.owners_above(token)
        tokens = (owner, *(each for each in above if is_of_token(each)))
        return max(sum(jobs[each] for each in self.family(each_token)) for each_token in tokens)

    def most_made(self, owner: int, now: datetime) -> int:
        """How many tokens in force this one has made, or the one of its makers that has made the most."""
        token = self._tokens.get(owner)
        above = () if token is None else self.owners_above(token)
        tokens = (each for each in (owner, *above) if is_of_token(each))
        made = (sum(each.is_in_force(now) for each in self.made_by(each_token)) for each_token in tokens)
        return max(made, default=0)

    def _line(self, token: Token) -> tuple[list[Token], int | None]:
        """The token and its makers, each as bounded as it is; and the owner of the first, whom nothing bounds.

        A maker that is no more has ended all that it made. So has one that seems to have made itself.
        """
        line, seen, first, is_lost = [token], {token.number}, token.made_by, False
        while first is not None:
            maker = self._maker(line[-1])
            is_lost = (maker is None and self._must_be_known(line[-1])) or (maker is not None and maker.number in seen)
            if maker is None or is_lost:
                break
            line.append(maker)
            seen.add(maker.number)
            first = maker.made_by
        if is_lost:
            line[-1] = replace(line[-1], revoked_at=line[-1].revoked_at or line[-1].created_at)
        for at in range(len(line) - 2, -1, -1):
            line[at] = narrow(line[at], line[at + 1])
        return line, first

    def _maker(self, token: Token) -> Token | None:
        owner, under = token.made_by, token.made_under
        if owner is None:
            return None
        if is_of_token(owner):
            return self._tokens.get(owner)
        return self._proxied.get((owner, under)) if under.startswith(PROXIED) else self._users.get(owner)

    @staticmethod
    def _must_be_known(token: Token) -> bool:
        """A user whom nothing bound when they made it may be bound by nothing now."""
        return token.made_by is not None and (is_of_token(token.made_by) or token.made_under != "")


def _sees_all(token: Token) -> bool:
    return token.sees_all or token.scope is Scope.ADMIN


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _least(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return min((amount for amount in (one, other) if amount is not None), default=None)


def _is_later(end: datetime | None, other: datetime | None) -> bool:
    return other is not None and (end is None or end > other)


def _is_more(wish: Token, allowance: Decimal, is_monthly: bool) -> bool:
    """An allowance that renews is more than one that does not, at any amount."""
    return wish.allowance is None or wish.allowance > allowance or (wish.is_monthly and not is_monthly)


def _until(end: datetime | None) -> str:
    return "that nothing sets" if end is None else f"on {end:%Y-%m-%d %H:%M:%S} UTC"


def _allowance(token: Token) -> str:
    if token.allowance is None:
        return "any amount"
    return f"{show(token.allowance)}{'/month' if token.is_monthly else ' for its whole life'}"


def _asking(amount: Decimal | None) -> str:
    return "no need to ask" if amount is None else f"to ask above {show(amount)}"
