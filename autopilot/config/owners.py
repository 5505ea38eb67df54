"""``[owners]``: what a user of the control socket may do, where that is not everything."""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from autopilot.domain.errors import UserError
from autopilot.domain.token import Bounds, Scope, Token, parse_allowance, parse_amount

MOST = 200


class OwnerSettings(BaseModel):
    """As the parameters of ``autopilot token create``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scope: Scope = Scope.SUBMIT
    all: bool = False
    secrets: tuple[str, ...] = Field(default=(), max_length=50)
    allow: str | None = None
    ask_above: str | None = None


def read_owners(owners: Mapping[str, OwnerSettings], now: datetime, own_uid: int) -> dict[int, Token]:
    """By uid. ``own_uid``: the daemon's. Raises ``UserError`` for users that are unknown here or cannot be limited."""
    if len(owners) > MOST:
        raise UserError(f"[owners] has {len(owners)} users, and {MOST} is the limit")
    return {token.owner: token for token in (_read(name, said, now, own_uid) for name, said in owners.items())}


def _read(name: str, said: OwnerSettings, now: datetime, own_uid: int) -> Token:
    place = f"owners.{name}"
    try:
        uid = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise UserError(
            f"{place}: this machine has no user {name!r}", hint="use an existing user, or create one"
        ) from None
    if uid in (0, own_uid):
        raise UserError(
            f"{place}: {name} can do everything here, regardless of the settings",
            hint="root and the daemon's own user cannot be limited; run the daemon as a user of its own",
        )
    return Token(-uid, name, "", created_at=now, expires_at=None, **read_bounds(place, said)._asdict())


def read_bounds(place: str, said: OwnerSettings) -> Bounds:
    """``place``: of the table, for the error. Raises ``UserError``."""
    try:
        allowance, is_monthly = parse_allowance(said.allow) if said.allow else (None, False)
        ask_above = parse_amount(said.ask_above, "ask_above") if said.ask_above else None
    except (UserError, ValueError) as problem:
        raise UserError(f"{place}: {problem}", hint='allow = "$20/month", ask_above = "$5"') from None
    return Bounds(said.scope, said.all, tuple(said.secrets), allowance, is_monthly, ask_above)
