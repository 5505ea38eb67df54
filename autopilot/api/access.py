"""Who may ask for what: one table of all calls, and whose jobs a caller may see and touch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from autopilot.domain.array import split_task
from autopilot.domain.delegation import Delegation, Settled
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.token import PageSession, Scope, Token, is_of_token
from autopilot.ports.store import Store, UnitOfWork


class Unauthorised(UserError):
    """A token that is not known, or not in force."""


def token_needed() -> Unauthorised:
    return Unauthorised("this takes a token", hint="an admin makes one with autopilot token create")


def token_unknown() -> Unauthorised:
    """The same for each that is none."""
    return Unauthorised("the token is not known, expired or revoked", hint="ask an admin for another")


class NotAllowed(UserError):
    """The caller is known and may not do this."""


class Others(StrEnum):
    """What of other owners a call may reach without the scope ``admin``."""

    NONE = "none"
    """For calls about a job: it must be the caller's own. Else the call concerns no owner."""
    SEEN = "seen"
    """With ``--all`` others' jobs can be read too."""
    ALL = "all"
    """It tells of the whole account, so it takes ``--all``."""


class Rule(NamedTuple):
    scope: Scope
    others: Others = Others.NONE


READ, OPERATE, SUBMIT, ADMIN = Scope

RULES = {
    "GET /metrics": Rule(READ, Others.ALL),
    "GET /v1/openapi.json": Rule(READ),
    "GET /v1/status": Rule(READ),
    "POST /v1/jobs": Rule(SUBMIT),
    "POST /v1/sets": Rule(SUBMIT),
    "POST /v1/schedules": Rule(SUBMIT),
    "GET /v1/schedules": Rule(READ, Others.SEEN),
    "POST /v1/schedules/{schedule}/pause": Rule(OPERATE),
    "POST /v1/schedules/{schedule}/resume": Rule(OPERATE),
    "POST /v1/schedules/{schedule}/end": Rule(OPERATE),
    "GET /v1/jobs": Rule(READ, Others.SEEN),
    "GET /v1/jobs/{ref}": Rule(READ, Others.SEEN),
    "GET /v1/jobs/{ref}/logs": Rule(READ, Others.SEEN),
    "GET /v1/jobs/{ref}/outputs": Rule(READ, Others.SEEN),
    "GET /v1/jobs/{ref}/code": Rule(SUBMIT),
    "GET /v1/jobs/{ref}/why": Rule(READ, Others.SEEN),
    "GET /v1/jobs/{ref}/receipt": Rule(READ, Others.SEEN),
    "PATCH /v1/jobs/{ref}": Rule(SUBMIT),
    "POST /v1/jobs/{ref}/stop": Rule(OPERATE),
    "POST /v1/jobs/{ref}/cancel": Rule(OPERATE),
    "POST /v1/jobs/{ref}/resume": Rule(OPERATE),
    "POST /v1/jobs/{ref}/retry": Rule(OPERATE),
    "POST /v1/jobs/{ref}/release": Rule(OPERATE),
    "POST /v1/jobs/{ref}/exec": Rule(SUBMIT),
    "GET /v1/jobs/{ref}/ssh": Rule(SUBMIT),
    "GET /v1/code/{sha256}": Rule(SUBMIT),
    "PUT /v1/code/{sha256}": Rule(SUBMIT),
    "PUT /v1/code/{sha256}/parts/{number}": Rule(SUBMIT),
    "GET /v1/events": Rule(READ, Others.SEEN),
    "POST /v1/offers": Rule(READ),
    "GET /v1/spend": Rule(READ, Others.SEEN),
    "GET /v1/budget": Rule(READ, Others.SEEN),
    "GET /v1/reconcile": Rule(READ, Others.ALL),
    "GET /v1/instances/{ref}": Rule(READ, Others.ALL),
    "GET /v1/prices": Rule(READ),
    "GET /v1/drift": Rule(READ, Others.ALL),
    "GET /v1/hosts": Rule(READ, Others.ALL),
    "POST /v1/hosts/{market}/{machine}/block": Rule(ADMIN),
    "POST /v1/hosts/{market}/{machine}/forgive": Rule(ADMIN),
    "GET /v1/markets/{market}/certification": Rule(READ, Others.ALL),
    "POST /v1/markets/{market}/certification": Rule(ADMIN),
    "POST /v1/markets/{market}/accept": Rule(ADMIN),
    "GET /v1/decisions": Rule(READ, Others.SEEN),
    "GET /v1/jobs/{ref}/life": Rule(READ, Others.SEEN),
    "GET /v1/spans": Rule(READ, Others.SEEN),
    "GET /v1/page": Rule(READ),
    "GET /v1/page/now": Rule(READ, Others.SEEN),
    "GET /v1/page/money": Rule(READ, Others.ALL),
    "POST /v1/page/link": Rule(READ),
    "POST /v1/page/enter": Rule(READ),
    "POST /v1/page/end": Rule(READ),
    "GET /v1/plans": Rule(ADMIN),
    "POST /v1/plans/{plan}/confirm": Rule(ADMIN),
    "GET /v1/tokens": Rule(ADMIN),
    "POST /v1/tokens": Rule(ADMIN),
    "POST /v1/tokens/{name}/revoke": Rule(ADMIN),
}
"""Every call of the API. A call that is not listed here is never served."""


@dataclass(frozen=True, slots=True)
class ApiCaller:
    owner: int
    """The uid of the process at the other end of the socket, or a token's owner."""
    token: Token | None = None
    """What bounds them; None: a user of the socket who may do everything."""
    session: PageSession | None = None
    """By which the page asks in their name."""
    is_proxied: bool = False
    """A reverse proxy vouches for them, with this call alone."""
    makers: frozenset[int] = frozenset()
    """The owners of all that made the token: who made it, who made that one, and so on."""

    @property
    def scope(self) -> Scope:
        return ADMIN if self.token is None else self.token.scope

    @property
    def sees_all(self) -> bool:
        return self.token is None or self.token.scope is ADMIN or self.token.sees_all

    def may_reach_others(self, rule: Rule) -> bool:
        return self.scope is ADMIN or (self.sees_all and rule.others is not Others.NONE)


def check_scope(caller: ApiCaller, rule: Rule) -> None:
    """Raises ``NotAllowed``."""
    if not caller.scope.covers(rule.scope):
        hint = f"this takes the scope {rule.scope}: {_way_out(caller.token, 'such a token')}"
        whose = "your" if _is_person(caller.token) else "the token's"
        raise NotAllowed(f"{whose} scope is {caller.scope}", hint=hint)
    if rule.others is Others.ALL and not caller.sees_all:
        hint = _way_out(caller.token, "a token that may", " NAME --all")
        raise NotAllowed(f"{_who(caller.token)} may not see the whole account", hint=hint)


def check_spec(spec: JobSpec, token: Token | None) -> None:
    """Whether a job file may be a token's. Raises ``NotAllowed``.

    To be asked before any secret is looked for: whether there is one of a name is not told either.
    """
    if token is None:
        return
    registry = () if spec.registry is None else (spec.registry.secret,)
    for name in (*(name for _, name in spec.secrets), *registry):
        if name not in token.secrets:
            hint = _way_out(token, "a token that may", " NAME --secret")
            raise NotAllowed(f"{_who(token)} may not use the secret {name!r}", hint=hint)


def _is_person(token: Token | None) -> bool:
    return token is not None and (token.is_of_user or token.is_proxied)


def _who(token: Token | None) -> str:
    return "you" if _is_person(token) else "the token"


def _way_out(token: Token | None, wanted: str, more: str = "") -> str:
    if token is not None and token.is_proxied:
        return "[http.proxy] in the daemon's settings gives you more"
    if _is_person(token):
        return "[owners] in the daemon's settings gives you more"
    return f"an admin makes {wanted} with autopilot token create{more}"


def check_total(spec: JobSpec, owner_is_token: bool) -> None:
    """Raises ``NotAllowed`` for a token's job without a bound on its cost."""
    if owner_is_token and spec.budget is None:
        raise NotAllowed("the job of a token must have a total", hint='[budget] total = "$5" in the job file')


async def find_own(uow: UnitOfWork, reference: str, caller: ApiCaller, rule: Rule) -> str | None:
    """The id of the caller's job of that reference, or of another's that the call may reach; of tasks with their
    numbers behind it.
    """
    whole, tasks = split_task(reference)
    job = await uow.jobs.find(whole, owner=caller.owner)
    if job is None and caller.may_reach_others(rule):
        job = await uow.jobs.find(whole)
    if job is None:
        return None
    return f"{job.id}/{tasks}" if tasks else job.id


async def recognise(store: Store, sha256: str, now: datetime, settled: Settled) -> ApiCaller:
    """Of the token in force whose secret has that hash, with what its makers leave it. Raises ``Unauthorised``.

    The secret is found by its hash: how long that takes says nothing of any secret of 256 random bits.
    """
    async with store.snapshot() as uow:
        token = await uow.tokens.find(sha256)
        if token is None:
            raise token_unknown()
        is_made_by_token = token.made_by is not None and is_of_token(token.made_by)
        known = await uow.tokens.list_all() if is_made_by_token else ()
    delegation = Delegation(known, settled)
    bounded = delegation.limit(token)
    if not bounded.is_in_force(now):
        raise token_unknown()
    return ApiCaller(token.owner, bounded, makers=delegation.owners_above(token))
