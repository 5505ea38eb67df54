"""The caps of our machines: each has a policy of its own, which lives as long as the machine does.

A cap cannot be changed while a machine runs under it, and the market has never been seen to accept a change: so a new
cap is a new policy. A policy costs nothing, but their number is limited.
"""

from __future__ import annotations

from decimal import Decimal

from nebius.api.nebius.billing.v1 import (
    DeletePricingPolicyRequest,
    GetPricingPolicyRequest,
    ListPricingPoliciesRequest,
    ListPricingPoliciesResponse,
    PricingPolicy,
    PricingPolicyServiceClient,
)
from nebius.api.nebius.common.v1 import GetByNameRequest

from autopilot.ids import new_name
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.nebius import names, outcomes, wire
from autopilot.providers.nebius.client import PAGE_ROWS, NebiusClient
from autopilot.providers.nebius.create import policy_message
from autopilot.providers.nebius.outcomes import Outcome
from autopilot.providers.nebius.pacing import Family
from autopilot.providers.nebius.reply import Fault, MarketRefused
from autopilot.providers.reading import NoReply

READY_WAIT_S = 60.0
"""How long a new policy takes until machines can be created under it."""
READY_LOOKS = 10


class Policies:
    def __init__(self, client: NebiusClient) -> None:
        self._client = client
        self._highest: dict[tuple[str, str], Decimal] = {}
        """(project, platform) → $/h of a GPU: what the market has said to be the highest cap."""

    async def all(self, project: str) -> list[wire.PolicyRow]:
        """Raises ``MarketUnknown``, also for one that cannot be read."""
        found = await self._client.rows(
            Family.LIST,
            PricingPolicyServiceClient,
            lambda token: ListPricingPoliciesRequest(parent_id=project, page_size=PAGE_ROWS, page_token=token),
            ListPricingPoliciesResponse,
        )
        return [readable_policy(each) for each in found]

    async def of_machine(self, project: str, name: str) -> list[wire.PolicyRow]:
        """Every policy that was made for the machine ``name``. Raises ``MarketUnknown``."""
        return [row for row in await self.all(project) if names.is_of(row.name, name)]

    async def get(self, policy_id: str) -> wire.PolicyRow | None:
        """None only where the market says that there is none. Raises ``MarketUnknown``."""
        return await self._get("get", GetPricingPolicyRequest(id=policy_id))

    async def _get(self, method: str, request: object) -> wire.PolicyRow | None:
        try:
            found = await self._client.get(Family.LIST, PricingPolicyServiceClient, method, request, PricingPolicy)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        return readable_policy(found)

    def highest(self, project: str, platform: str) -> Decimal | None:
        return self._highest.get((project, platform))

    async def make(self, name: str, project: str, platform: str, cap: Decimal) -> wire.PolicyRow | Refused:
        """A policy under which machines can start now, or why there is none: then none that was made here is left, as
        far as can be told, and no machine was made."""
        try:
            row, is_new = await self._make(name, project, platform, cap)
        except MarketRefused as error:
            refusal = error.refusal
            if refusal.fault is Fault.OUT_OF_RANGE and refusal.limit is not None and refusal.limit < cap:
                self._highest[project, platform] = refusal.limit
            outcome = outcomes.judge_refusal(refusal)
            return outcome if isinstance(outcome, Refused) else Refused(RefusalCode.RATE_LIMITED, outcome.message)
        except (NoReply, MarketUnknown) as error:
            # One that was made all the same shows later, as left over.
            return Refused(RefusalCode.RATE_LIMITED, f"there is no cap yet, and no machine was requested: {error}")
        is_asked_for = row.max_price == cap and row.platform == platform
        if is_asked_for and not row.is_blocked:
            return row
        if is_new:
            # One that was there before may have a machine under it.
            await self.delete(row.policy_id)
        if is_asked_for:
            return Refused(RefusalCode.BID_TOO_LOW, f"the spot price is above ${cap}/h of a GPU")
        return Refused(
            RefusalCode.INVALID, f"asked for a cap of ${cap}/h on {platform}, got ${row.max_price}/h on {row.platform}"
        )

    async def _make(self, name: str, project: str, platform: str, cap: Decimal) -> tuple[wire.PolicyRow, bool]:
        """The policy, and whether it was not there before. Raises ``MarketRefused``, ``NoReply`` and
        ``MarketUnknown``."""
        asked = policy_message(name, project, platform, cap)
        is_new = True
        try:
            begun = await self._client.change(PricingPolicyServiceClient, "create", asked, f"{name}-policy")
            await self._client.finish(PricingPolicyServiceClient, begun, READY_WAIT_S)
            row = await self.get(wire.check_id(begun.resource_id) or "")
        except (NoReply, MarketRefused) as error:
            if isinstance(error, MarketRefused) and error.refusal.fault is not Fault.NAME_TAKEN:
                raise
            # The name is unique: a policy that has it is what this attempt or an earlier one made.
            row, is_new = await self._find_ready(project, name), False
        if row is None:
            raise MarketUnknown(f"the policy {name} was made, and is not there")
        if row.state != "STATE_ACTIVE":
            raise MarketUnknown(f"the policy {name} is {row.state}")
        return row, is_new

    async def _find_ready(self, project: str, name: str) -> wire.PolicyRow | None:
        """By its name; one that is being made is waited for. Raises ``MarketUnknown``."""
        row = None
        for _ in range(READY_LOOKS):
            row = await self._get("get_by_name", GetByNameRequest(parent_id=project, name=name))
            if row is None or row.state not in ("STATE_CREATING", "STATE_UPDATING"):
                break
            await self._client.pause()
        return row

    async def delete(self, policy_id: str) -> Outcome:
        """Done: the market says that it is gone. Refused while a machine runs under it."""
        if wire.check_id(policy_id) is None:
            return Refused(RefusalCode.INVALID, f"not a policy id of this market: {policy_id!r}")
        request = DeletePricingPolicyRequest(id=policy_id)
        try:
            begun = await self._client.change(PricingPolicyServiceClient, "delete", request, new_name())
            ended = await self._client.finish(PricingPolicyServiceClient, begun, READY_WAIT_S)
        except MarketRefused as error:
            return Done(None) if error.refusal.fault is Fault.NOT_FOUND else outcomes.judge_refusal(error.refusal)
        except NoReply as error:
            return Unknown(str(error))
        return Done(None) if ended.status is not None else Unknown(f"the policy {policy_id} is still being deleted")


def readable_policy(message: PricingPolicy) -> wire.PolicyRow:
    """Raises ``MarketUnknown``."""
    try:
        return wire.policy_row(message)
    except wire.UnreadableRow as error:
        raise MarketUnknown(str(error)) from error
