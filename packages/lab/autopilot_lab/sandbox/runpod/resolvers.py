"""The root fields of the GraphQL schema, resolved against the market. Raise ``PodRefused`` and ``Unauthorized``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from autopilot_lab.sandbox.faults import InjectedFault
from autopilot_lab.sandbox.runpod import gpu_types, rows
from autopilot_lab.sandbox.runpod.catalogue import DATA_CENTERS
from autopilot_lab.sandbox.runpod.machines import Cloud, GpuType
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.orders import Input, bid_per_gpu, edits, pod_order, requirements
from autopilot_lab.sandbox.runpod.pods import Defect, Pod, PodOrder, Status
from autopilot_lab.sandbox.runpod.rows import Json

PUBLIC_FIELDS = frozenset({"gpuTypes", "dataCenters", "countryCodes"})
"""These answer without a key."""


class Unauthorized(Exception):
    """The key is good, but not for this."""


@dataclass
class Customer:
    """What is remembered of the customer besides pods."""

    pub_key: str = "ssh-ed25519 AAAA... me"


@dataclass(frozen=True)
class Caller:
    """Whom the key belongs to. ``pod_id``: the only pod that the key is good for; ``None``: the whole account."""

    team: str | None = None
    pod_id: str | None = None

    def may_touch(self, pod_id: str) -> bool:
        return self.pod_id is None or self.pod_id == pod_id


Authorise = Callable[[str, str | None], Caller | None]
"""Key and team to caller; ``None`` for an unknown key."""


@dataclass(frozen=True)
class Call:
    """One execution. ``fault``: what is wrong with it."""

    market: PodMarket
    account: Customer
    caller: Caller
    fault: InjectedFault | None = None

    def has_fault(self, kind: str) -> bool:
        return self.fault is not None and self.fault.kind == kind

    def own_pod(self, pod_id: str, wish: str) -> Pod:
        if not self.caller.may_touch(pod_id):
            raise Unauthorized
        team = self.caller.team
        if self.caller.pod_id is not None:
            team = self.market.pods[pod_id].order.team
        return self.market.find(pod_id, team, wish)

    def whole_account(self) -> None:
        """Raises ``Unauthorized`` for a pod's own key."""
        if self.caller.pod_id is not None:
            raise Unauthorized

    def rent(self, order: PodOrder) -> Pod:
        """The pod that the answer names: the second one where a fault makes two.

        Without room for a second, the first one is left behind a refusal. Raises ``PodRefused``.
        """
        defect = next((defect for defect in Defect if self.has_fault(defect)), None)
        pods = [self.market.rent(replace(order, defect=defect)) for _ in range(1 + self.has_fault("rented_twice"))]
        return pods[-1]

    def listed_pods(self) -> list[Pod]:
        """The account's pods, or what a fault leaves of them."""
        market = self.market
        if self.fault is not None and self.has_fault("stale_list"):
            seen_at = market.now - timedelta(seconds=self.fault.lag_s)
            everything = [pod for pod in market.pods.values() if pod.created_at <= seen_at]
            pods = [pod for pod in everything if pod.terminated_at is None or pod.terminated_at > seen_at]
        else:
            pods = market.live()
        pods = [pod for pod in pods if pod.order.team == self.caller.team]
        return pods[: len(pods) // 2] if self.has_fault("truncated_list") else pods

    def row(self, pod: Pod) -> Json:
        return rows.pod_row(self.market, pod, runtime_known=not self.has_fault("null_runtime"))


def root(call: Call) -> dict[str, Callable[..., Any]]:
    """Resolvers by field name, for graphql-core's default resolution."""
    resolvers: dict[str, Callable[[Call, Input], Any]] = {
        "myself": _myself,
        "pod": _pod,
        "gpuTypes": _gpu_types,
        "dataCenters": _data_centers,
        "countryCodes": _country_codes,
        "podFindAndDeployOnDemand": _rent,
        "podRentInterruptable": _rent,
        "podBidResume": _bid_resume,
        "podResume": _resume,
        "podStop": _stop,
        "podTerminate": _terminate,
        "podEditJob": _edit,
        "deployCpuPod": _deploy_cpu_pod,
        "saveRegistryAuth": _save_registry,
        "updateUserSettings": _update_settings,
    }

    def bound(resolve: Callable[[Call, Input], Any]) -> Callable[..., Any]:
        return lambda info, input=None: resolve(call, input or {})

    fields = {name: bound(resolve) for name, resolve in resolvers.items()}
    return {**fields, "deleteRegistryAuth": lambda info, registryAuthId: _delete_registry(call, registryAuthId)}


def _myself(call: Call, wish: Input) -> Json:
    call.whole_account()
    pods = [call.row(pod) for pod in call.listed_pods()]
    credentials = [each.row() for each in call.market.registries.of(call.caller.team)]
    return rows.user_row(call.market, pods, call.account.pub_key) | {"containerRegistryCreds": credentials}


def _pod(call: Call, wish: Input) -> Json | None:
    """``None`` for a pod that is unknown, terminated or somebody else's."""
    pod = call.market.pods.get(wish.get("podId", ""))
    if pod is None or pod.status is Status.TERMINATED or not call.caller.may_touch(pod.id):
        return None
    if call.caller.pod_id is None and pod.order.team != call.caller.team:
        return None
    return call.row(pod)


def _rent(call: Call, wish: Input) -> Json:
    call.whole_account()
    return call.row(call.rent(pod_order(wish, call.caller.team, call.account.pub_key)))


def _deploy_cpu_pod(call: Call, wish: Input) -> Json:
    """This fleet has GPUs only."""
    call.whole_account()
    return _rent(call, {**wish, "gpuTypeId": None})


def _resume(call: Call, wish: Input) -> Json:
    pod = call.own_pod(wish["podId"], "resume")
    call.market.resume(pod, wish.get("gpuCount"))
    return call.row(pod)


def _bid_resume(call: Call, wish: Input) -> Json:
    pod = call.own_pod(wish["podId"], "resume")
    call.market.bid_resume(pod, wish["gpuCount"], bid_per_gpu(wish["bidPerGpu"]))
    return call.row(pod)


def _stop(call: Call, wish: Input) -> Json:
    pod = call.own_pod(wish["podId"], "stop")
    call.market.stop(pod)
    return call.row(pod)


def _terminate(call: Call, wish: Input) -> None:
    call.market.terminate(call.own_pod(wish["podId"], "terminate"))


def _edit(call: Call, wish: Input) -> Json:
    pod = call.own_pod(wish["podId"], "edit")
    call.market.edit(pod, **edits(wish))
    return call.row(pod)


def _update_settings(call: Call, wish: Input) -> Json:
    call.whole_account()
    call.account.pub_key = wish.get("pubKey") or ""
    return _myself(call, {})


def _save_registry(call: Call, wish: Input) -> Json:
    call.whole_account()
    made = call.market.registries.save(wish["name"], wish["username"], wish["password"], call.caller.team)
    return made.row()


def _delete_registry(call: Call, registry_id: str) -> bool:
    call.whole_account()
    call.market.registries.delete(registry_id, call.caller.team)
    return True


def _gpu_types(call: Call, wish: Input) -> list[Json]:
    wanted = set(wish.get("ids") or ([wish["id"]] if wish.get("id") else []))
    known = gpu_types.gpu_types(call.market)
    return [_gpu_type_row(call, each) for each in known if not wanted or each.id in wanted]


def _gpu_type_row(call: Call, gpu_type: GpuType) -> Json:
    market = call.market
    secure, community = (gpu_types.list_price(market, gpu_type, cloud) for cloud in (Cloud.SECURE, Cloud.COMMUNITY))

    def lowest_price(info: object, input: Input | None = None) -> Json:
        wish = input or {}
        gpu_count = wish.get("gpuCount") or 1
        stock = gpu_types.stock(market, gpu_type, requirements(wish), gpu_count)
        return {
            "gpuName": gpu_type.display_name,
            "gpuTypeId": gpu_type.id,
            "minimumBidPrice": stock.spot_floor,
            "uninterruptablePrice": stock.on_demand,
            "minMemory": stock.memory_gb,
            "minVcpu": stock.vcpus,
            "stockStatus": stock.status,
            "availableGpuCounts": list(stock.counts),
            "maxUnreservedGpuCount": max(stock.counts, default=0),
            "rentedCount": stock.rented,
            "totalCount": stock.total,
            "rentalPercentage": stock.rented / stock.total if stock.total else None,
            "countryCode": wish.get("countryCode"),
        }

    return {
        "id": gpu_type.id,
        "displayName": gpu_type.display_name,
        "manufacturer": "Nvidia",
        "memoryInGb": gpu_type.memory_gb,
        "cudaCores": 0,
        "secureCloud": secure is not None,
        "communityCloud": community is not None,
        "securePrice": secure,
        "communityPrice": community,
        "secureSpotPrice": gpu_types.spot_price(market, gpu_type, Cloud.SECURE),
        "communitySpotPrice": gpu_types.spot_price(market, gpu_type, Cloud.COMMUNITY),
        "maxGpuCount": gpu_types.max_gpu_count(market, gpu_type),
        "maxGpuCountSecureCloud": gpu_types.max_gpu_count(market, gpu_type, [Cloud.SECURE]),
        "maxGpuCountCommunityCloud": gpu_types.max_gpu_count(market, gpu_type, [Cloud.COMMUNITY]),
        "minPodGpuCount": 1,
        "lowestPrice": lowest_price,
    }


def _data_centers(call: Call, wish: Input) -> list[Json]:
    return [_data_center_row(call, place, name, country) for place, (name, country) in DATA_CENTERS.items()]


def _data_center_row(call: Call, place: str, name: str, country: str) -> Json:
    availability = []
    for gpu_type in gpu_types.gpu_types(call.market):
        status = gpu_types.stock(call.market, gpu_type, requirements({"dataCenterId": place}), 1).status
        if status is not None:
            about = {"gpuTypeId": gpu_type.id, "displayName": gpu_type.display_name}
            availability.append({**about, "stockStatus": status, "available": status != "None"})
    return {
        "id": place,
        "name": name,
        "location": country,
        "listed": True,
        "storageSupport": True,
        "globalNetwork": False,
        "gpuAvailability": availability,
    }


def _country_codes(call: Call, wish: Input) -> list[str]:
    return sorted({machine.spec.country for machine in call.market.machines.values()})
