"""What a token may only do once a person has said so: plans that wait to be confirmed.

A plan binds its owner and all that was asked: the job file, the code, the budget, the rates. It is good for ten minutes
and for one use. Plans are kept in memory: a daemon that was restarted asks again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot import render
from autopilot.api.access import ApiCaller, NotAllowed
from autopilot.api.once import CallerGone
from autopilot.domain.delegation import may_confirm
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.money import show
from autopilot.domain.token import Token
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids

GOOD_FOR = timedelta(minutes=10)
PLANS_OF_AN_OWNER = 20
"""At once. The oldest goes for one more."""
RUN_SHOWN = 500
"""Characters of its command that are shown to the person who confirms; the hash covers all of it."""


class ConfirmFirst(UserError):
    """A person has to confirm it."""

    def __init__(self, plan_id: str, limit: Decimal) -> None:
        super().__init__(
            f"the token asks a person above {show(limit)}: plan {plan_id} waits to be confirmed",
            hint=f"a person confirms it in 10 minutes: autopilot confirm {plan_id}; then send it again with --plan",
        )
        self.plan_id = plan_id


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    id: str
    owner: int
    sha256: str
    """Digest of the whole request."""
    what: str
    spec: JobSpec
    made_at: datetime
    confirmed_by: int | None = None


def asks_above(token: Token | None, spec: JobSpec) -> Decimal | None:
    """The dollars above which a person has to confirm it; None if no confirmation is needed."""
    limit = None if token is None else token.ask_above
    return None if limit is None or (spec.budget is not None and spec.budget <= limit) else limit


class PlanBook:
    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._plans: dict[str, WaitingPlan] = {}

    @contextmanager
    def asking(self, token: Token | None, what: str, spec: JobSpec, asked: object, plan_id: str) -> Iterator[None]:
        """For the time in which it is done: it uses the plan up, unless it is refused. If it is unknown whether it was
        committed, the plan is used up: a plan must never pay twice.

        ``asked``: all that the plan is to bind, as JSON. Raises ``ConfirmFirst`` for what is not confirmed, and
        ``NotAllowed`` for a plan of something else.
        """
        limit = asks_above(token, spec)
        if token is None or limit is None:
            yield
            return
        sha256 = hashlib.sha256(json.dumps([what, asked], sort_keys=True, default=str).encode()).hexdigest()
        if not plan_id:
            raise ConfirmFirst(self._add(token.owner, sha256, what, spec), limit)
        plan = self._take(plan_id, token.owner, sha256)
        try:
            yield
        except (UserError, CallerGone):
            self._plans[plan_id] = plan
            raise

    def confirm(self, plan_id: str, caller: ApiCaller) -> render.Json:
        """Raises ``UserError``, and ``NotAllowed`` for the plan's owner, for tokens that they made, and for callers
        who would need a confirmation for it themselves."""
        plan = self._find(plan_id)
        if plan is None:
            raise UserError(f"no plan {plan_id[:60]!r} waits", hint="autopilot confirm lists all plans")
        way_out = "an admin who may spend as much unasked can, or a user of the socket"
        if not may_confirm(caller.owner, caller.makers, plan.owner):
            who = "its maker" if caller.owner == plan.owner else "a token of its maker"
            raise NotAllowed(f"a plan cannot be confirmed by {who}", hint=way_out)
        limit = asks_above(caller.token, plan.spec)
        if limit is not None:
            raise NotAllowed(f"above {show(limit)} you need a confirmation yourself", hint=way_out)
        self._plans[plan_id] = confirmed = replace(plan, confirmed_by=caller.owner)
        return _render(confirmed)

    def list_all(self) -> list[render.Json]:
        """Oldest first."""
        return [_render(plan) for plan_id in list(self._plans) if (plan := self._find(plan_id)) is not None]

    def _add(self, owner: int, sha256: str, what: str, spec: JobSpec) -> str:
        """The same request, asked again, waits under the same id."""
        of_owner = [plan for plan_id in list(self._plans) if (plan := self._find(plan_id)) and plan.owner == owner]
        for plan in of_owner:
            if plan.sha256 == sha256:
                return plan.id
        if len(of_owner) >= PLANS_OF_AN_OWNER:
            del self._plans[of_owner[0].id]
        made = WaitingPlan(self._ids.new(), owner, sha256, what, spec, self._clock.now())
        self._plans[made.id] = made
        return made.id

    def _take(self, plan_id: str, owner: int, sha256: str) -> WaitingPlan:
        plan = self._find(plan_id)
        if plan is None or plan.owner != owner:
            hint = "send it without a plan, and have the new one confirmed"
            raise NotAllowed(f"there is no plan {plan_id[:60]!r}, or it has expired", hint=hint)
        if plan.sha256 != sha256:
            raise NotAllowed(f"plan {plan_id} is for another change", hint="each change needs a plan of its own")
        if plan.confirmed_by is None:
            raise NotAllowed(
                f"plan {plan_id} is not confirmed yet", hint=f"a person confirms it: autopilot confirm {plan_id}"
            )
        return self._plans.pop(plan_id)

    def _find(self, plan_id: str) -> WaitingPlan | None:
        plan = self._plans.get(plan_id)
        if plan is not None and self._clock.now() - plan.made_at >= GOOD_FOR * self._clock.speed:
            del self._plans[plan_id]
            return None
        return plan


def _render(plan: WaitingPlan) -> render.Json:
    return {
        "id": plan.id,
        "owner": plan.owner,
        "what": plan.what,
        "name": plan.spec.name,
        "image": plan.spec.image,
        "run": plan.spec.run[:RUN_SHOWN],
        "budget": render.plain(plan.spec.budget),
        "max_rate": render.plain(plan.spec.max_rate),
        "max_hourly": render.plain(plan.spec.max_hourly),
        "sha256": plan.sha256,
        "made_at": render.plain(plan.made_at),
        "is_confirmed": plan.confirmed_by is not None,
    }
