"""What the market tells of itself: kinds of machine, prices, what is free, and what a project has."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol

import grpc
import jwt
from nebius.api.nebius.billing.v1alpha1 import (
    CostBreakdown,
    EstimateRequest,
    EstimateResponse,
    GeneralTotalCost,
    ListSpotPriceSeriesRequest,
    ListSpotPriceSeriesResponse,
    ListSpotPricesRequest,
    ListSpotPricesResponse,
    ResourceGroupCost,
)
from nebius.api.nebius.capacity.v1 import ListResourceAdviceRequest, ListResourceAdviceResponse
from nebius.api.nebius.common.v1 import ResourceMetadata
from nebius.api.nebius.compute.v1 import ListPlatformsRequest, ListPlatformsResponse
from nebius.api.nebius.iam.v1 import CreateTokenResponse, ExchangeTokenRequest
from nebius.api.nebius.quotas.v1 import (
    ListQuotaAllowancesRequest,
    ListQuotaAllowancesResponse,
    QuotaAllowance,
    QuotaAllowanceSpec,
    QuotaAllowanceStatus,
)
from nebius.api.nebius.vpc.v1 import ListSubnetsRequest, ListSubnetsResponse, Subnet

from autopilot_lab.sandbox.nebius import messages, refusals
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS, TENANT
from autopilot_lab.sandbox.nebius.market import DISK_PER_GB_H, NebiusMarket
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused

LONGEST_SPAN, LONGEST_FINE_SPAN = timedelta(days=30), timedelta(days=7)
MOST_SKUS = 100
AUDIENCE = "token-service.iam.new.nebiuscloud.net"
TOKEN_LASTS_S = 12 * 3600


class PublicCall(Protocol):
    @property
    def market(self) -> NebiusMarket: ...

    @property
    def access_token(self) -> str: ...

    def read(self, kind: Any) -> Any: ...

    def page(self, shown: list[Any], token: str, answer: Any) -> Any: ...


def exchange_token(call: PublicCall) -> Any:
    """An access token for the word of a service account: whose it is, and that it has not expired."""
    request: ExchangeTokenRequest = call.read(ExchangeTokenRequest)
    try:
        word = jwt.decode(
            request.subject_token, audience=AUDIENCE, options={"verify_signature": False, "require": ["exp", "sub"]}
        )
    except jwt.PyJWTError as error:
        raise NebiusRefused(grpc.StatusCode.UNAUTHENTICATED, f"the token is none of ours: {error}") from None
    if not str(word["sub"]).startswith("serviceaccount-"):
        raise NebiusRefused(grpc.StatusCode.UNAUTHENTICATED, "no such service account")
    return CreateTokenResponse(access_token=call.access_token, token_type="Bearer", expires_in=TOKEN_LASTS_S)  # noqa: S106


def list_platforms(call: PublicCall) -> Any:
    """Nothing for a project that is not seen: as the market does."""
    request = call.read(ListPlatformsRequest)
    pools = [pool for pool in call.market.pools.values() if PROJECTS.get(pool.spec.region) == request.parent_id]
    shown = [messages.platform(pool, request.parent_id) for pool in pools]
    return call.page(shown, request.page_token, ListPlatformsResponse)


def list_spot_prices(call: PublicCall) -> Any:
    request = call.read(ListSpotPricesRequest)
    shown = [messages.spot_price(pool) for pool in call.market.pools.values()]
    return call.page(shown, request.page_token, ListSpotPricesResponse)


def list_series(call: PublicCall) -> Any:
    request: ListSpotPriceSeriesRequest = call.read(ListSpotPriceSeriesRequest)
    filters, granularity = request.filters, request.aggregation.granularity.name
    start, end = filters.start_time, filters.end_time or call.market.now
    if start is None or call.market.now - start > LONGEST_SPAN:
        raise refusals.bad_request("filters.start_time", "must lie within 30 days")
    if len(filters.sku_ids) > MOST_SKUS:
        raise refusals.bad_request("filters.sku_ids", f"at most {MOST_SKUS}")
    is_fine = granularity == "GRANULARITY_MINUTE_15"
    if is_fine and end - start > LONGEST_FINE_SPAN:
        raise refusals.bad_request("aggregation.granularity", "steps of 15 minutes reach 7 days")
    step = timedelta(minutes=15) if is_fine else timedelta(hours=1)
    method = request.aggregation.method.name.removeprefix("METHOD_").removesuffix("_PRICE")
    method = "LAST" if method == "UNSPECIFIED" else method
    wanted = set(filters.sku_ids)
    pools = [pool for pool in call.market.pools.values() if not wanted or pool.sku_id in wanted]
    shown = [messages.series(pool, start, end, step, method) for pool in pools]
    return call.page(shown, request.page_token, ListSpotPriceSeriesResponse)


def estimate(call: PublicCall) -> Any:
    """On demand, and disks. A preemptible machine is answered with its price on demand: do not ask for it here."""
    request: EstimateRequest = call.read(EstimateRequest)
    asked = request.resource_spec
    if asked.compute_disk_spec is not None:
        cost = DISK_PER_GB_H * (asked.compute_disk_spec.spec.size_gibibytes or 0)
    elif asked.compute_instance_spec is not None:
        resources = asked.compute_instance_spec.spec.resources
        pool = call.market.pool_at(asked.compute_instance_spec.metadata.parent_id, resources.platform)
        preset = pool.preset(resources.preset or "")
        if preset is None:
            raise refusals.bad_request("spec.resources.preset", "is no preset of the platform")
        cost = pool.spec.platform.on_demand * preset.gpus
    else:
        raise refusals.bad_request("resource_spec", "value is required")
    return EstimateResponse(hourly_cost=_cost(cost), monthly_cost=_cost(cost * 720))


def _cost(amount: Decimal) -> ResourceGroupCost:
    return ResourceGroupCost(general=GeneralTotalCost(total=CostBreakdown(cost=f"{amount:f}")))


def list_advice(call: PublicCall) -> Any:
    request = call.read(ListResourceAdviceRequest)
    shown = [
        messages.advice(pool, spec, pool.gpus - call.market.lifecycle.count_taken(pool))
        for pool in call.market.pools.values()
        for spec in pool.spec.platform.presets
        if request.parent_id == TENANT
    ]
    return call.page(shown, request.page_token, ListResourceAdviceResponse)


def list_quotas(call: PublicCall) -> Any:
    request = call.read(ListQuotaAllowancesRequest)
    market = call.market
    alive = sum(not vm.is_gone for vm in market.vms.values())
    rows = (
        ("compute.instance.count", market.most_vms, alive),
        ("billing.pricing-policy.count", market.most_policies, len(market.policies)),
    )
    shown = [
        QuotaAllowance(
            metadata=ResourceMetadata(parent_id=request.parent_id, name=name),
            spec=QuotaAllowanceSpec(limit=limit),
            status=QuotaAllowanceStatus(usage=usage),
        )
        for name, limit, usage in rows
    ]
    return call.page(shown, request.page_token, ListQuotaAllowancesResponse)


def list_subnets(call: PublicCall) -> Any:
    request = call.read(ListSubnetsRequest)
    metadata = ResourceMetadata(
        id=f"vpcsubnet-{request.parent_id[-8:]}", parent_id=request.parent_id, name="default-subnet-sandbox"
    )
    shown = [Subnet(metadata=metadata)] if request.parent_id in PROJECTS.values() else []
    return call.page(shown, request.page_token, ListSubnetsResponse)
