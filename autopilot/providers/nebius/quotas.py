"""What each project may have of what a machine counts against: machines, disks, addresses and policies."""

from __future__ import annotations

from functools import partial

from nebius.api.nebius.quotas.v1 import (
    ListQuotaAllowancesRequest,
    ListQuotaAllowancesResponse,
    QuotaAllowance,
    QuotaAllowanceServiceClient,
    QuotaAllowanceStatus,
)

from autopilot.domain.instance import AccountQuota
from autopilot.providers import values
from autopilot.providers.nebius.client import PAGE_ROWS, NebiusClient
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.pacing import Family

OURS = (
    "compute.instance.",
    "compute.disk.count",
    "compute.disk.size.network-ssd",
    "vpc.allocation.count",
    "vpc.ipv4-address.public.count",
)
"""How the names begin of those that a machine of ours counts against; one of policies is called by no known name."""
POLICIES = "pricing-policy"


async def read_quotas(settings: NebiusSettings, client: NebiusClient) -> tuple[AccountQuota, ...]:
    """By project, in the market's own words. Raises ``MarketUnknown``."""
    found: list[AccountQuota] = []
    for region, project in settings.projects.items():
        rows = await client.rows(
            Family.ACCOUNT,
            QuotaAllowanceServiceClient,
            partial(_ask, project),
            ListQuotaAllowancesResponse,
        )
        found += [quota for row in rows if (quota := _quota(row, region)) is not None]
    return tuple(found)


def _ask(project: str, page: str) -> ListQuotaAllowancesRequest:
    return ListQuotaAllowancesRequest(parent_id=project, page_size=PAGE_ROWS, page_token=page)


def _quota(row: QuotaAllowance, region: str) -> AccountQuota | None:
    """None for what no machine of ours counts against, and for what is not bounded."""
    name, limit = values.text(row.metadata.name), row.spec.limit
    if limit is None or not (name.startswith(OURS) or POLICIES in name):
        return None
    is_unknown = row.status.usage_state == QuotaAllowanceStatus.UsageState.USAGE_STATE_UNKNOWN
    used = None if is_unknown else row.status.usage
    return AccountQuota(name, limit, used, values.text(row.spec.region) or region, values.text(row.status.unit))
