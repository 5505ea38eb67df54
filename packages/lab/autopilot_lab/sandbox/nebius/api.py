"""Nebius's gRPC services, as far as their descriptors and others' clients show them, with the vendor's own messages."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import grpc
from nebius.api.nebius.billing.v1 import (
    CreatePricingPolicyRequest,
    DeletePricingPolicyRequest,
    GetPricingPolicyRequest,
    ListPricingPoliciesRequest,
    ListPricingPoliciesResponse,
)
from nebius.api.nebius.common.v1 import GetByNameRequest, GetOperationRequest
from nebius.api.nebius.compute.v1 import (
    CreateInstanceRequest,
    DeleteDiskRequest,
    DeleteInstanceRequest,
    GetInstanceRequest,
    InstanceRecoveryPolicy,
    ListDisksRequest,
    ListDisksResponse,
    ListInstancesRequest,
    ListInstancesResponse,
    StartInstanceRequest,
    StopInstanceRequest,
    UpdateInstanceRequest,
)

from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.nebius import messages, public, refusals, strangers
from autopilot_lab.sandbox.nebius.injected_faults import LOST, UNHEARD, hang, leave_unheard, refusal_of
from autopilot_lab.sandbox.nebius.market import NebiusMarket
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused
from autopilot_lab.sandbox.nebius.vms import MarketOperation, VmOrder
from autopilot_lab.sandbox.wire import Host

KEY_HEADER = "x-idempotency-key"
MOST_PAGE_ROWS = 1000
OPEN_TO_ALL = ("price", "token")


@dataclass(frozen=True)
class Call:
    market: NebiusMarket
    raw: bytes
    key: str
    fault: InjectedFault | None
    page_rows: int
    access_token: str
    """Issued in exchange for a service account's signed token."""

    def shows_until(self) -> datetime:
        """A list does not show what was made later."""
        return self.market.now - timedelta(seconds=self.fault.lag_s if self.fault and self.has("stale_list") else 0)

    def has(self, kind: str) -> bool:
        return self.fault is not None and self.fault.kind == kind

    def read(self, kind: Any) -> Any:
        try:
            return kind.FromString(self.raw)
        except Exception as error:
            raise refusals.bad_request("", f"cannot be read: {error}") from None

    def page(self, shown: list[Any], token: str, answer: Any) -> Any:
        """One page of a list, as ``answer`` takes it."""
        if not (token == "" or (token.isascii() and token.isdigit())):
            raise refusals.bad_request("page_token", "is none of ours")
        if self.has("repeated_token"):
            return answer(items=shown[:1], next_page_token="again")  # noqa: S106 - no secret
        if self.has("endless_list"):
            return answer(items=shown[:1], next_page_token=str(int(token or 0) + 1))
        start = int(token or 0)
        end = start + self.page_rows
        return answer(items=shown[start:end], next_page_token=str(end) if end < len(shown) else "")


Endpoint = Callable[[Call], Any]
"""The answer: a message. May raise ``NebiusRefused``."""


class NebiusApi(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(
        self,
        market: NebiusMarket,
        host: Host,
        faults: Faults,
        requests: Counter[str],
        stopping: asyncio.Event,
        *,
        keys: tuple[str, ...],
        page_rows: int,
    ) -> None:
        self._market = market
        self._host = host
        self._faults = faults
        self._requests = requests
        self._stopping = stopping
        self._keys = keys
        self._page_rows = page_rows
        self._request_ids = itertools.count(1)

    def service(self, details: Any) -> Any:
        method = details.method.removeprefix("/nebius.")
        found = ENDPOINTS.get(method)
        authorization = dict(details.invocation_metadata).get("authorization", "")
        key = dict(details.invocation_metadata).get(KEY_HEADER, "")

        async def answer(raw: bytes, context: Any) -> bytes:
            try:
                if found is None:
                    raise NebiusRefused(grpc.StatusCode.UNIMPLEMENTED, method)
                return await self._answer(*found, raw, key, authorization)
            except NebiusRefused as refused:
                request_id = f"r-{next(self._request_ids):08d}"
                context.set_trailing_metadata(
                    (("grpc-status-details-bin", refused.rich_status()), ("x-request-id", request_id))
                )
                await context.abort(refused.status, refused.message)
                raise AssertionError("abort raises") from None

        return grpc.unary_unary_rpc_method_handler(answer)

    async def _answer(self, family: str, endpoint: Endpoint, raw: bytes, key: str, authorization: str) -> bytes:
        self._host.synchronise()
        self._requests[family] += 1
        fault = self._faults.draw(family)
        if fault is not None and fault.kind in LOST:
            refusal = refusal_of(fault)
            if refusal is None:
                await hang(fault.hang_s, self._stopping)
                refusal = NebiusRefused(grpc.StatusCode.UNAVAILABLE, "gone")
            raise refusal
        if family not in OPEN_TO_ALL and authorization.removeprefix("Bearer ") not in self._keys:
            raise NebiusRefused(grpc.StatusCode.UNAUTHENTICATED, "the token is unknown")
        if family == "price" and "request-pace" in self._market.broken:
            raise refusals.too_many_requests()
        made = endpoint(Call(self._market, raw, key, fault, self._page_rows, self._keys[0]))
        body: bytes = made.SerializeToString()
        await self._host.settle()
        if fault is not None and fault.kind in UNHEARD:
            return await leave_unheard(fault, self._stopping)
        return body


# -- policies


def _create_policy(call: Call) -> Any:
    request = call.read(CreatePricingPolicyRequest)
    if (done := call.market.find_replay(call.key)) is not None:
        return messages.operation(done)
    if not request.metadata.name:
        raise refusals.bad_request("metadata.name", "value is required")
    spec, pricing = request.spec.compute_instance_spec, request.spec.pricing.max_price_v1
    if pricing is None or spec.v1 is None:
        raise refusals.bad_request("spec", "value is required")
    try:
        cap = Decimal(pricing.max_price)
    except InvalidOperation:
        raise refusals.bad_request("spec.pricing.max_price_v1.max_price", "is no price") from None
    metadata = request.metadata
    made = call.market.make_policy(call.key, metadata.parent_id, metadata.name, spec.v1.platform, cap)
    return messages.operation(made)


def _get_policy(call: Call) -> Any:
    return messages.policy(call.market, call.market.policy(call.read(GetPricingPolicyRequest).id))


def _policy_by_name(call: Call) -> Any:
    request = call.read(GetByNameRequest)
    found = call.market.policy_named(request.parent_id, request.name)
    if found is None:
        raise refusals.no_such(request.name)
    return messages.policy(call.market, found)


def _list_policies(call: Call) -> Any:
    request = call.read(ListPricingPoliciesRequest)
    until = call.shows_until()
    policies = call.market.policies.values()
    rows = [row for row in policies if row.project == request.parent_id and row.created_at <= until]
    shown = strangers.policies(request.parent_id) if call.market.has_strangers else []
    shown += [messages.policy(call.market, row) for row in rows]
    return call.page(shown, request.page_token, ListPricingPoliciesResponse)


def _delete_policy(call: Call) -> Any:
    return _once(call, lambda: call.market.delete_policy(call.key, call.read(DeletePricingPolicyRequest).id))


# -- machines and disks


def _create_vm(call: Call) -> Any:
    request: CreateInstanceRequest = call.read(CreateInstanceRequest)
    order, policy_id = _order(request, call)

    def make() -> MarketOperation:
        begun = call.market.make_vm(call.key, order, policy_id)
        if call.has("no_hardware"):
            vm = call.market.vm(begun.resource_id)
            vm.finds_no_hardware = True
            call.market.lifecycle.start(vm)
        if call.has("made_twice"):
            call.market.make_vm("", replace(order, name=f"{order.name}x"), policy_id)
        return begun

    return _once(call, make)


def _order(request: CreateInstanceRequest, call: Call) -> tuple[VmOrder, str]:
    """Raises ``NebiusRefused``, by the rules that the vendor's descriptors state."""
    metadata, spec = request.metadata, request.spec
    disk = spec.boot_disk.managed_disk if spec.boot_disk is not None else None
    policy = spec.spot_pricing_policy
    faults = {
        "metadata.parent_id": not metadata.parent_id,
        "metadata.name": not metadata.name or len(metadata.name) > 1024,
        "spec.resources.platform": not spec.resources.platform,
        "spec.boot_disk": disk is None or not disk.name or not disk.spec.type,
        "spec.network_interfaces": not 1 <= len(spec.network_interfaces) <= 8,
        "spec.preemptible.on_preemption": not spec.preemptible.on_preemption,
    }
    for field, is_missing in faults.items():
        if is_missing:
            raise refusals.bad_request(field, "value is required")
    if policy is None or disk is None:
        raise refusals.bad_request("spec.pricing_model", "must be specified for a preemptible instance")
    family = disk.spec.source_image_family
    presets = [each.name for pool in call.market.pools.values() for each in pool.spec.platform.presets]
    other = next(name for name in presets if name != spec.resources.preset)
    order = VmOrder(
        project=metadata.parent_id,
        name=metadata.name,
        platform=spec.resources.platform,
        preset=other if call.has("another_preset") else spec.resources.preset or "",
        disk_gb=disk.spec.size_gibibytes or 0,
        user_data=spec.cloud_init_user_data,
        fails_for_good=spec.recovery_policy == InstanceRecoveryPolicy.FAIL,
        subnet=spec.network_interfaces[0].subnet_id,
        image_family=family.image_family if family is not None else "",
    )
    return order, policy.id


def _get_vm(call: Call) -> Any:
    return messages.vm(call.market.vm(call.read(GetInstanceRequest).id))


def _vm_by_name(call: Call) -> Any:
    request = call.read(GetByNameRequest)
    found = call.market.vm_named(request.parent_id, request.name)
    if found is None:
        raise refusals.no_such(request.name)
    return messages.vm(found)


def _list_vms(call: Call) -> Any:
    request = call.read(ListInstancesRequest)
    until = call.shows_until()
    rows = [
        vm
        for vm in call.market.vms.values()
        if not vm.is_gone and vm.order.project == request.parent_id and vm.created_at <= until
    ]
    shows_name = "list-shows-label" not in call.market.broken
    shown = strangers.vms(request.parent_id) if call.market.has_strangers else []
    shown += [messages.vm(vm, shows_name=shows_name) for vm in rows]
    return call.page(shown, request.page_token, ListInstancesResponse)


def _update_vm(call: Call) -> Any:
    request: UpdateInstanceRequest = call.read(UpdateInstanceRequest)
    vm = call.market.vm(request.metadata.id)
    if request.metadata.resource_version not in (0, vm.version):
        raise refusals.bad_state(vm.id, "resource_version is not the present one")
    if request.spec.cloud_init_user_data != vm.order.user_data or request.metadata.name != vm.order.name:
        # What is left out would be cleared.
        raise refusals.bad_request("spec", "the update would clear fields that cannot be cleared")
    policy = request.spec.spot_pricing_policy
    if policy is None:
        raise refusals.bad_request("spec.pricing_model", "must be specified for a preemptible instance")
    return _once(call, lambda: call.market.swap_policy(call.key, vm, policy.id))


def _delete_vm(call: Call) -> Any:
    vm_id = call.read(DeleteInstanceRequest).id
    return _once(
        call,
        lambda: call.market.delete_vm(call.key, call.market.vm(vm_id), leaves_disk=call.has("left_disk")),
    )


def _start_vm(call: Call) -> Any:
    vm_id = call.read(StartInstanceRequest).id
    return _once(call, lambda: call.market.start_vm(call.key, call.market.vm(vm_id)))


def _stop_vm(call: Call) -> Any:
    vm_id = call.read(StopInstanceRequest).id
    return _once(call, lambda: call.market.stop_vm(call.key, call.market.vm(vm_id)))


def _list_disks(call: Call) -> Any:
    request = call.read(ListDisksRequest)
    rows = [
        vm
        for vm in call.market.vms.values()
        if vm.order.project == request.parent_id and (not vm.is_gone or vm.has_left_disk)
    ]
    shown = strangers.disks(request.parent_id) if call.market.has_strangers else []
    return call.page([*shown, *map(messages.disk, rows)], request.page_token, ListDisksResponse)


def _delete_disk(call: Call) -> Any:
    return _once(call, lambda: call.market.delete_disk(call.key, call.read(DeleteDiskRequest).id))


def _get_operation(call: Call) -> Any:
    wanted = call.read(GetOperationRequest).id
    found = call.market.operations.get(wanted)
    if found is None:
        raise refusals.no_such(wanted)
    return messages.operation(found)


def _once(call: Call, begin: Callable[[], MarketOperation]) -> Any:
    """The same key brings the same operation."""
    return messages.operation(call.market.find_replay(call.key) or begin())


ENDPOINTS: dict[str, tuple[str, Endpoint]] = {
    "billing.v1.PricingPolicyService/Create": ("policy", _create_policy),
    "billing.v1.PricingPolicyService/Get": ("policies", _get_policy),
    "billing.v1.PricingPolicyService/GetByName": ("policies", _policy_by_name),
    "billing.v1.PricingPolicyService/List": ("policies", _list_policies),
    "billing.v1.PricingPolicyService/Delete": ("policy", _delete_policy),
    "compute.v1.InstanceService/Create": ("create", _create_vm),
    "compute.v1.InstanceService/Get": ("show", _get_vm),
    "compute.v1.InstanceService/GetByName": ("show", _vm_by_name),
    "compute.v1.InstanceService/List": ("list", _list_vms),
    "compute.v1.InstanceService/Update": ("change", _update_vm),
    "compute.v1.InstanceService/Start": ("change", _start_vm),
    "compute.v1.InstanceService/Stop": ("change", _stop_vm),
    "compute.v1.InstanceService/Delete": ("end", _delete_vm),
    "compute.v1.DiskService/List": ("disks", _list_disks),
    "compute.v1.DiskService/Delete": ("end", _delete_disk),
    "common.v1.OperationService/Get": ("operations", _get_operation),
    "compute.v1.PlatformService/List": ("platforms", public.list_platforms),
    "billing.v1alpha1.SpotPriceService/List": ("price", public.list_spot_prices),
    "billing.v1alpha1.SpotPriceService/ListSeries": ("price", public.list_series),
    "billing.v1alpha1.CalculatorService/Estimate": ("estimate", public.estimate),
    "capacity.v1.ResourceAdviceService/List": ("advice", public.list_advice),
    "iam.v1.TokenExchangeService/Exchange": ("token", public.exchange_token),
    "quotas.v1.QuotaAllowanceService/List": ("quotas", public.list_quotas),
    "vpc.v1.SubnetService/List": ("subnets", public.list_subnets),
}
"""Family and endpoint by service and method."""
