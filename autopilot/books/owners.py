"""Whose a job is, in words: a user of this machine, a token by its name, or a proxy's user. And the other way round."""

from __future__ import annotations

import asyncio
import pwd
from collections.abc import Collection, Iterable, Mapping

from autopilot.domain.errors import UserError
from autopilot.domain.token import PROXIED, Token, is_of_token
from autopilot.ports.store import UnitOfWork

OF_TOKEN = "token:"  # noqa: S105 - a prefix
"""Before a token's name, which may be that of a user, too."""


async def name_owners(uow: UnitOfWork, owners: Iterable[int]) -> Mapping[int, str]:
    """The number if it has no name."""
    tokens = {token.owner: _name_token(token) for token in await uow.tokens.list_all()}
    return await asyncio.to_thread(lambda: {owner: _name(owner, tokens) for owner in set(owners)})


async def name_makers(uow: UnitOfWork, tokens: Collection[Token]) -> Mapping[int, str | None]:
    """The creator of each, by its number; None if not recorded."""
    made_by = {token.number: token.made_by for token in tokens if token.made_by is not None}
    names = await name_owners(uow, made_by.values())
    named: dict[int, str | None] = {token.number: None for token in tokens}
    named |= {number: names[owner] for number, owner in made_by.items()}
    return named | {token.number: token.made_under for token in tokens if token.made_under.startswith(PROXIED)}


async def find_owner(uow: UnitOfWork, name: str) -> int:
    """By the name of a user, by ``token:NAME`` (the newest of that name), by ``proxy:NAME``, or by number.

    Raises ``UserError``.
    """
    if name.removeprefix("-").isdecimal() and len(name) < 12:
        return int(name)
    if name.startswith((OF_TOKEN, PROXIED)):
        known = [token.owner for token in await uow.tokens.list_all() if _name_token(token) == name]
        found = known[-1] if known else None
    else:
        found = await asyncio.to_thread(_uid_of, name)
    if found is None:
        others = f"{OF_TOKEN}NAME, {PROXIED}NAME, or the number that a job shows as its owner"
        hint = f"a user of the daemon's machine, {others}"
        raise UserError(f"there is no owner {name[:60]!r}", hint=hint)
    return found


def _name_token(token: Token) -> str:
    return token.name if token.is_proxied else f"{OF_TOKEN}{token.name}"


def _name(owner: int, tokens: Mapping[int, str]) -> str:
    if is_of_token(owner):
        return tokens.get(owner, str(owner))
    try:
        return pwd.getpwuid(owner).pw_name
    except (KeyError, OverflowError):
        return str(owner)


def _uid_of(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        return None
