"""Users that a reverse proxy has signed in and the settings admit: each with an owner of their own in the ledger.

The ledger keeps them among the tokens, so that allowances, parked jobs and names work as for those. The secret of such
a token is never given out.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from dataclasses import replace

import structlog
from multidict import CIMultiDictProxy

from autopilot.api.access import ApiCaller, NotAllowed, Unauthorised
from autopilot.api.bearer import hash_token
from autopilot.api.of_listener import PROXY_SECRET, PROXY_USER
from autopilot.domain.proxied import ProxiedUser, ProxyRules
from autopilot.domain.token import PROXIED, Token
from autopilot.ids import new_secret
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

MOST_KEPT = 1000
"""Names that the ledger ever keeps, where anybody may come; those that the settings name find room beside them."""


class ProxiedUsers:
    def __init__(self, rules: ProxyRules, store: Store, clock: Clock, users: Mapping[int, Token] | None = None) -> None:
        """``users``: by uid, of the socket, whom the settings limit."""
        self._rules = rules
        self._users = users or {}
        self._store = store
        self._clock = clock
        self._known: dict[str, Token] = {}
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Update the users in the ledger to the present settings.

        A user whom the settings no longer admit ends as a revoked token does, and returns when they do again.
        """
        now = self._clock.now()
        async with self._store.transaction() as uow:
            for name, token in (await _list(uow)).items():
                found = self._rules.find(name)
                if found is None or found.uid is not None:
                    kept = replace(token, revoked_at=token.revoked_at or now)
                else:
                    kept = replace(token, revoked_at=None, **found.bounds._asdict())
                    self._known[name] = kept
                if kept != token:
                    await uow.tokens.save(kept)

    def of_users(self) -> tuple[Token, ...]:
        """All whose jobs are those of a user of this machine: what they, and all that they make, may do."""
        named = self._rules.users.items()
        return tuple(self._of_user(name, user, user.uid) for name, user in named if user.uid is not None)

    async def recognise(self, headers: CIMultiDictProxy[str]) -> ApiCaller:
        """Of a call that the listener passes on.

        Raises ``Unauthorised``, and ``NotAllowed`` for a user whom the settings do not admit.
        """
        names, secrets = headers.getall(PROXY_USER, []), headers.getall(PROXY_SECRET, [])
        if not self._rules.is_open or len(names) != 1 or not self._is_proxy(secrets):
            raise proxy_unknown()
        name = names[0]
        found = self._rules.find(name)
        if found is None:
            log.warning("api.login_failed", user=name[:100])
            raise NotAllowed(
                f"the proxy's user {name[:100]!r} is not admitted",
                hint="[http.proxy.users] in the daemon's settings lists the admitted users",
            )
        token = await self._token(name, found)
        return ApiCaller(token.owner, token, is_proxied=True)

    def _is_proxy(self, secrets: list[str]) -> bool:
        if not self._rules.secret_sha256:
            return not secrets  # its socket is closed to others
        return len(secrets) == 1 and hmac.compare_digest(hash_token(secrets[0]), self._rules.secret_sha256)

    async def _token(self, name: str, user: ProxiedUser) -> Token:
        if user.uid is not None:
            return self._of_user(name, user, user.uid)
        known = self._known.get(name)
        if known is None:
            async with self._making:
                known = self._known.get(name) or await self._make(name, user)
                self._known[name] = known
        return known

    def _of_user(self, name: str, user: ProxiedUser, uid: int) -> Token:
        """Their jobs count in the allowance of the user who owns them."""
        token = Token(-uid, PROXIED + name, "", created_at=self._clock.now(), expires_at=None, **user.bounds._asdict())
        owner = self._users.get(uid)
        return token if owner is None else replace(token, allowance=owner.allowance, is_monthly=owner.is_monthly)

    async def _make(self, name: str, user: ProxiedUser) -> Token:
        """Raises ``NotAllowed`` for one too many."""
        async with self._store.transaction() as uow:
            tokens = await uow.tokens.list_all()
            if name not in self._rules.users and sum(token.is_proxied for token in tokens) >= MOST_KEPT:
                hint = "have the proxy let in fewer, or name them in [http.proxy.users] with an owner"
                raise NotAllowed(f"the proxy has named {MOST_KEPT} users, which is the limit", hint=hint)
            number = max((token.number for token in tokens), default=0) + 1
            sha256, now = hash_token(new_secret()), self._clock.now()
            more = user.bounds._asdict()
            made = Token(number, PROXIED + name, sha256, created_at=now, expires_at=None, **more)
            await uow.tokens.save(made)
        log.info("proxy.user_met", name=name, number=number, scope=made.scope)
        return made


def proxy_unknown() -> Unauthorised:
    """The same for every fault."""
    return Unauthorised(
        "the proxy has not said who you are, or is not the proxy",
        hint="it sends the header that http.proxy.user_header names once, and its secret where one is set",
    )


async def _list(uow: UnitOfWork) -> Mapping[str, Token]:
    """By the name that the proxy gives them."""
    return {token.name.removeprefix(PROXIED): token for token in await uow.tokens.list_all() if token.is_proxied}
