"""Make, list and revoke tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from autopilot import render
from autopilot.answers.models.account import TokenBody
from autopilot.api.access import ApiCaller, NotAllowed, token_unknown
from autopilot.api.bearer import hash_token
from autopilot.books.owners import name_makers
from autopilot.domain import events as e
from autopilot.domain.delegation import NO_LIMITED_USERS, Delegation, Settled, Wider, find_wider, inherit, made_under
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.reasons import Reason
from autopilot.domain.time import parse_duration
from autopilot.domain.token import MOST_MADE, PROXIED, Token, parse_allowance, parse_amount
from autopilot.engine.event_log import EventLog
from autopilot.ids import new_secret
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

PREFIX = "aptk_"
"""Begins every token, so that one in a wrong place can be told."""
LONGEST_LIFE = timedelta(days=3650)
MOST_SECRETS = 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}", re.ASCII)
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", re.ASCII)


NAMED_NOTE = "named_by."
"""With a daemon's id behind it: the makers whom its settings named when it began last."""

Announce = Callable[[Collection[str]], Awaitable[None]]
"""Takes the hashes of all tokens that are not revoked."""


class TokenService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        wake: Callable[[], None],
        announce: Announce | None = None,
        settled: Settled = NO_LIMITED_USERS,
    ) -> None:
        """``announce``: tells others than the ledger, which checks for itself, which tokens there are.

        ``settled``: whom the settings limit, and so all that they make."""
        self._store = store
        self._clock = clock
        self._wake = wake
        self._announce = announce
        self._settled = settled

    async def open(self, daemon: str = "") -> None:
        """End the tokens of users who are no longer in the settings, for good: they stay ended if the users return.

        ``daemon``: which of the daemons that share the ledger this is. A daemon ends for good only tokens of makers
        that its own settings have named. Tokens of other makers are refused here, and are valid again on a daemon
        whose settings name the maker.
        """
        async with self._store.transaction() as uow:
            known = await uow.tokens.list_all()
            proxied = (f"{each.owner} {each.name}" for each in known if each.is_proxied and each.revoked_at is None)
            named = self._settled.names() | frozenset(proxied)
            note = NAMED_NOTE + daemon
            before = frozenset(json.loads(await uow.notes.get(note) or "[]"))
            delegation = Delegation(known, self._settled)
            for token in known:
                if token.revoked_at is not None or delegation.limit(token).revoked_at is None:
                    continue
                maker = delegation.bound_by(token)
                if daemon and maker and maker not in before:
                    log.warning("token.suspended", name=token.name, reason="other daemons' settings name its maker")
                    continue
                await uow.tokens.save(replace(token, revoked_at=self._clock.now()))
                log.warning("token.ended", name=token.name, number=token.number, reason="its maker has ended")
            if daemon and named != before:
                await uow.notes.set(note, json.dumps(sorted(named)))

    async def announce(self) -> None:
        """Tell which tokens there are, as of now."""
        if self._announce is not None:
            async with self._store.snapshot() as uow:
                known = await uow.tokens.list_all()
            await self._announce([token.sha256 for token in known if token.revoked_at is None and not token.is_proxied])

    async def create(self, body: TokenBody, caller: ApiCaller) -> render.Json:
        """A new token; its secret is in this answer and nowhere else. ``caller``: who makes it.

        Raises ``UserError``, and ``NotAllowed`` for one that would be wider than its maker.
        """
        now = self._clock.now()
        name, scope, secrets = body.name, body.scope, _secrets(body.secrets)
        if not _NAME.fullmatch(name):
            raise UserError("a token's name has 1 to 60 letters, digits, dots, dashes or _")
        secret = PREFIX + new_secret()
        async with self._store.transaction() as uow:
            known = await uow.tokens.list_all()
            if any(token.name == name and token.revoked_at is None for token in known):
                raise UserError(f"there is a token {name!r}", hint=f"revoke it first: autopilot token revoke {name}")
            number = max((token.number for token in known), default=0) + 1
            expires_at = _expiry(body.expires, now)
            allowance, is_monthly = parse_allowance(body.allow) if body.allow else (None, False)
            token = Token(number, name, hash_token(secret), scope, body.sees_all, secrets, now, expires_at)
            ask_above = parse_amount(body.ask_above, "ask_above") if body.ask_above else None
            token = replace(token, allowance=allowance, is_monthly=is_monthly, ask_above=ask_above)
            token = replace(token, made_by=caller.owner, made_under=made_under(caller.token))
            delegation = Delegation([*known, token], self._settled)
            if not delegation.limit(token).is_in_force(now):
                raise token_unknown()  # its maker has ended while it asked
            if delegation.most_made(caller.owner, now) > MOST_MADE:
                raise _too_many()
            makers = delegation.makers(token)
            token = inherit(token, makers)
            wider = find_wider(token, makers)
            if wider is not None:
                raise _too_wide(wider)
            await uow.tokens.save(token)
            made_by = await name_makers(uow, [token])
        await self.announce()
        log.info("token.created", name=name, number=number, scope=scope, by=caller.owner)
        return {"token": _render(token, now, made_by), "secret": secret}

    async def list_all(self) -> render.Json:
        """Each with what its makers leave it."""
        async with self._store.snapshot() as uow:
            known = await uow.tokens.list_all()
            made_by = await name_makers(uow, known)
        bounded = map(Delegation(known, self._settled).limit, known)
        return {"tokens": [_render(token, self._clock.now(), made_by) for token in bounded]}

    async def revoke(self, name: str, *, parks_all: bool, by: int) -> render.Json:
        """End a token, and all that it made. Their jobs that have not begun are parked; with ``parks_all`` the others
        too, saved.

        Raises ``UserError``.
        """
        now = self._clock.now()
        if name.startswith(PROXIED):
            hint = "have the proxy let them in no more; or take them out of [http.proxy] in the settings, and restart"
            raise UserError(f"{name[:100]} is not a token but a user of the proxy", hint=hint)
        async with self._store.transaction() as uow:
            known = await uow.tokens.list_all()
            token = next((each for each in known if each.name == name and each.revoked_at is None), None)
            if token is None:
                raise UserError(f"there is no token {name!r} in force", hint="autopilot token ls lists all tokens")
            revoked = replace(token, revoked_at=now)
            made = Delegation(known, self._settled).made_by(token.owner)
            ended = [each for each in made if each.revoked_at is None]
            for each in (revoked, *(replace(each, revoked_at=now) for each in ended)):
                await uow.tokens.save(each)
            owners = {token.owner, *(each.owner for each in made)}
            parked = [
                job.id
                for job in await uow.jobs.list_open()
                if job.owner in owners and job.status.wants_capacity and (parks_all or not job.launches)
            ]
            for job_id in parked:
                await _stop(uow, await uow.jobs.find(job_id), now)
            made_by = await name_makers(uow, [revoked])
        await self.announce()
        self._wake()
        log.info("token.revoked", name=name, number=token.number, ended=len(ended), parked=len(parked), by=by)
        return {"token": _render(revoked, now, made_by), "parked": parked, "ended": [each.name for each in ended]}


async def _stop(uow: UnitOfWork, job: Job | None, now: datetime) -> None:
    if job is None:
        return
    event_log = EventLog(job)
    event_log.apply(e.StatusSet(JobStatus.STOPPING, Reason.USER_STOPPED, now))
    await uow.jobs.save(event_log.job)
    await uow.events.add(event_log.records)


def _too_many() -> NotAllowed:
    hint = "revoke one of them (autopilot token ls); a user of the socket makes any number"
    return NotAllowed(f"a token may have made {MOST_MADE} valid tokens at most", hint=hint)


def _too_wide(wider: Wider) -> NotAllowed:
    hint = "ask for no more than that; a user of the socket who is not limited makes any"
    return NotAllowed(f"the token would have {wider.wished}, and its maker has {wider.has}", hint=hint)


def _secrets(raw: Sequence[str]) -> tuple[str, ...]:
    if len(raw) > MOST_SECRETS:
        raise UserError(f"secrets must be a list of at most {MOST_SECRETS} names")
    if not all(_SECRET_NAME.fullmatch(name) for name in raw):
        raise UserError("secrets must be names as autopilot secret list shows them")
    return tuple(sorted(set(raw)))


def _expiry(raw: str, now: datetime) -> datetime | None:
    if not raw:
        return None
    life = parse_duration(raw)
    if not timedelta(0) < life <= LONGEST_LIFE:
        raise UserError("expires must be positive and at most 3650d")
    return now + life


def _render(token: Token, now: datetime, made_by: Mapping[int, str | None]) -> render.Json:
    return {
        "number": token.number,
        "name": token.name,
        "scope": token.scope,
        "sees_all": token.sees_all,
        "secrets": list(token.secrets),
        "created_at": render.plain(token.created_at),
        "expires_at": render.plain(token.expires_at),
        "revoked_at": render.plain(token.revoked_at),
        "in_force": token.is_in_force(now),
        "allowance": render.plain(token.allowance),
        "is_monthly": token.is_monthly,
        "ask_above": render.plain(token.ask_above),
        "made_by": made_by[token.number],
    }
