"""Nebius's side of the wire: requests as the vendor's own messages, and answers likewise.

Imported by those alone who play this market: the vendor's SDK takes a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from nebius.api.nebius.billing.v1 import (
    ComputeInstanceSpec,
    ComputeInstanceSpecV1,
    ListPricingPoliciesResponse,
    MaxPriceV1,
    PricingMethod,
    PricingPolicy,
    PricingPolicySpec,
    PricingPolicyStatus,
)
from nebius.api.nebius.billing.v1alpha1 import (
    CostBreakdown,
    EstimateResponse,
    GeneralTotalCost,
    ListSpotPriceSeriesResponse,
    ListSpotPricesResponse,
    ResourceGroupCost,
    SpotPrice,
    SpotPriceComputeInstance,
    SpotPricePoint,
    SpotPriceSeries,
    SpotPriceValue,
)
from nebius.api.nebius.common.v1 import Operation, ResourceMetadata
from nebius.api.nebius.compute.v1 import (
    AttachedDiskSpec,
    Disk,
    DiskSpec,
    DiskStatus,
    FollowsSpotPriceSpec,
    Instance,
    InstanceRecoveryPolicy,
    InstanceSpec,
    InstanceStatus,
    ListDisksResponse,
    ListInstancesResponse,
    ListPlatformsResponse,
    ManagedDisk,
    Platform,
    PlatformSpec,
    PlatformStatus,
    PreemptibleSpec,
    Preset,
    PresetResources,
    ResourcesSpec,
    SpotPricingPolicySpec,
)
from nebius.api.nebius.vpc.v1 import ListSubnetsResponse, Subnet

from autopilot.providers.nebius import names
from autopilot_lab.sandbox.nebius import messages, refusals
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused
from autopilot_lab.sandbox.nebius.vms import MarketOperation
from tests.simulation.ground.machines import Box, State
from tests.simulation.ground.wire import Raw, Request, Snapshots
from tests.simulation.markets.capped import DISK, PROJECTS, Cap, CappedMarket, No, Op, Refused, Vm, parts
from tests.simulation.virtual.clock import at

PAGE = 25
PAST_STEPS = 24
"""Quarters of an hour that the record of prices has."""
MOST_REMEMBERED = 2_000
CALLS = {
    "PricingPolicyService.create": "make_cap",
    "PricingPolicyService.get": "cap",
    "PricingPolicyService.get_by_name": "cap_named",
    "PricingPolicyService.list": "caps",
    "PricingPolicyService.delete": "drop_cap",
    "InstanceService.create": "create",
    "InstanceService.get": "show",
    "InstanceService.get_by_name": "named",
    "InstanceService.list": "vms",
    "InstanceService.update": "bid",
    "InstanceService.start": "start",
    "InstanceService.stop": "stop",
    "InstanceService.delete": "destroy",
    "DiskService.list": "disks",
    "DiskService.delete": "drop_disk",
    "PlatformService.list": "types",
    "SpotPriceService.list": "offers",
    "SpotPriceService.list_series": "past",
    "CalculatorService.estimate": "estimate",
    "SubnetService.list": "subnets",
}
"""What each method of a service is called here."""
_LISTED = {"types": "types", "vms": "vms", "caps": "caps", "disks": "disks"}
_SHOWN = {"exited": "STOPPED", "offline": "STOPPING", "unknown": "UNSPECIFIED", "null": "ERROR", "loading": "STARTING"}
"""What a state that the world shows wrongly is called here."""
_REFUSALS: dict[No, Callable[[Refused], NebiusRefused]] = {
    No.NO_HARDWARE: lambda no: refusals.no_hardware(),
    No.QUOTA: lambda no: refusals.over_quota("compute.instance.count", 8, 9),
    No.CAP_TOO_HIGH: lambda no: refusals.out_of_range(no.subject, no.text),
    No.STATE: lambda no: refusals.bad_state(no.subject, no.text),
    No.TAKEN: lambda no: refusals.name_taken(no.subject),
    No.MISSING: lambda no: refusals.no_such(no.subject),
    No.INVALID: lambda no: refusals.bad_request(no.subject, no.text),
    No.RIGHTS: lambda no: refusals.no_rights(no.text),
    No.CUT_SHORT: lambda no: refusals.abort(),
}
_UNKNOWN_STATE = b"\x1a\x02\x08\x63"
"""Of a machine, added to its message: a state that the SDK has no name for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The body of a request. ``key``: of a change, by which it is known again."""

    message: Any
    key: str

    def get(self, name: str) -> str | None:
        """The label that a machine is to get, as other markets' bodies tell theirs."""
        return names.label_of(self.message.metadata.name) if name == "label" else None

    def __str__(self) -> str:
        return str(self.message.SerializeToString())


def request(service: str, method: str, message: Any, key: str, *, is_listing: bool) -> Request:
    """``service``: as the SDK names its client. ``is_listing``: all machines are being read, part by part."""
    kind = CALLS[f"{service.removesuffix('Client')}.{method}"]
    subject = "" if kind in ("make_cap", "create") else getattr(message, "id", "")
    if kind == "bid":
        subject = message.metadata.id
    part = ""
    if is_listing and kind in _LISTED:
        part = f"{kind} {message.parent_id} {message.page_token}"
    return Request(kind, service, method, {}, Asked(message, key), subject, part=part)


def operation_request(operation_id: str) -> Request:
    return Request("operation", "OperationService", "get", {}, None, operation_id)


@dataclass(frozen=True, slots=True)
class _Page:
    """``rows``: of which ``answer`` is made; kept, so that nothing else becomes the same object."""

    rows: list[Any]
    answer: Any


class Nebius:
    """Answers for one market."""

    def __init__(self, market: CappedMarket) -> None:
        self.market = market
        self.ground = market.ground
        self._made: dict[tuple[Any, ...], Any] = {}
        self._snapshots = {(kind, project): Snapshots() for kind in _LISTED for project in PROJECTS.values()}

    def answer(self, asked: Request) -> Raw:
        """The request takes effect here."""
        try:
            found = getattr(self, f"_{asked.kind}")(asked)
        except Refused as no:
            return Raw(200, "", _REFUSALS[no.why](no))
        except NebiusRefused as refused:
            return Raw(200, "", refused)
        return found if isinstance(found, Raw) else Raw(200, "", found)

    # --- lists

    def _vms(self, asked: Request) -> Any:
        now_s, project = self.ground.now_s, asked.body.message.parent_id
        boxes = [box for box in self.market.boxes.values() if parts(box.host)[0] == project]
        rows = [self._vm_row(self.market.vms[box.id]) for box in boxes if box.visible_from_s <= now_s]
        return self._page_of(asked, rows, ListInstancesResponse)

    def _caps(self, asked: Request) -> Any:
        project = asked.body.message.parent_id
        rows = [self._cap_row(cap) for cap in self.market.caps.values() if cap.project == project]
        return self._page_of(asked, rows, ListPricingPoliciesResponse)

    def _disks(self, asked: Request) -> Any:
        project = asked.body.message.parent_id
        kept = {id_: each for id_, each in self.market.kept.items() if id_.startswith(DISK)}
        owners = [(id_, self.market.vms[each.box_id].box) for id_, each in kept.items()]
        rows = [
            self._remembered((id_, box.is_gone, box.label), partial(self.disk_row, id_, box))
            for id_, box in owners
            if parts(box.host)[0] == project
        ]
        return self._page_of(asked, rows, ListDisksResponse)

    def _types(self, asked: Request) -> Any:
        project = asked.body.message.parent_id
        sold = [parts(host) for host in self.market.hosts.values() if parts(host)[0] == project]
        rows = [self._remembered(kind, partial(_type_row, *kind)) for kind in sold]
        return self._page_of(asked, rows, ListPlatformsResponse)

    def _vm_row(self, vm: Vm) -> Any:
        key = (vm.box.id, vm.version, vm.is_settling, self._state(vm), vm.box.label)
        return self._remembered(key, partial(self.vm_row, vm))

    def _cap_row(self, cap: Cap) -> Any:
        key = (cap.id, cap.label, cap.is_ready, self.market.is_blocked(cap))
        return self._remembered(key, partial(self.cap_row, cap))

    def _remembered(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Messages take long to make, and what lists show seldom changes. Nobody writes into a list."""
        if key not in self._made:
            if len(self._made) >= MOST_REMEMBERED:
                self._made.clear()
            self._made[key] = make()
        return self._made[key]

    def _page_of(self, asked: Request, rows: list[Any], kind: Any) -> Any:
        faults = self.ground.faults
        snapshots = self._snapshots[asked.kind, asked.body.message.parent_id]
        snapshots.keep(self.ground.now_s, rows)
        if faults.hits("B1"):
            self._spoil(asked)
            return self._no_list(asked, kind)
        if faults.hits("B3") and asked.kind != "types":
            rows = snapshots.one(faults.rng("B3"))
        first = int(asked.body.message.page_token or 0)
        page, more = rows[first : first + PAGE], len(rows) > first + PAGE
        token = str(first + PAGE) if more else ""
        if page and asked.kind != "types" and faults.hits("B4"):
            if faults.rng("B4").random() < 0.5:
                page = page[:-1]
            else:
                token = str(first or PAGE)
                if first:  # else there is but an empty page more
                    self._spoil(asked)
        if page and faults.hits("B6"):
            changed = self._drifted(asked.kind, page[0])
            if changed is None:
                self._spoil(asked)
                return Raw(200, "")
            page = [changed, *page[1:]]
        # By which objects they are: those are remembered, and kept with the page.
        key = (kind.__name__, asked.body.message.parent_id, token, *map(id, page))
        return self._remembered(key, lambda: _Page(page, kind(items=page, next_page_token=token))).answer

    def _no_list(self, asked: Request, kind: Any) -> Any:
        """What comes in a list's place. Kinds of machine alone may be told as if there were none."""
        match self.market.rng.randrange(4):
            case 0 if asked.kind == "types":
                return kind(items=[])
            case 1:
                return refusals.too_many_requests()
            case 2:
                return refusals.no_rights("the scope is not seen")
            case _:
                return Raw(200, "")

    def _spoil(self, asked: Request) -> None:
        if asked.part:
            self.ground.spoil(self.market.provider, asked.part)

    def _drifted(self, kind: str, row: Any) -> Any:
        """With one field as nobody has described it; None: no list can be made of it."""
        rng = self.ground.faults.rng("B6")
        if kind == "vms" and rng.random() < 0.5:
            self._note_otherwise(self.market.vms[row.metadata.id].box)
            return Instance.FromString(row.SerializeToString() + _UNKNOWN_STATE)
        return None

    def _note_otherwise(self, box: Box) -> None:
        """What is told of it is not so."""
        box.was_shown_wrongly, box.shown_otherwise_s = True, self.ground.now_s

    # --- single reads

    def _show(self, asked: Request) -> Any:
        vm, faults = self.market.vms.get(asked.box_id), self.ground.faults
        is_fresh = vm is not None and vm.box.is_gone and self.ground.now_s - vm.box.gone_s <= 60
        if vm is not None and (not vm.box.is_gone or is_fresh) and faults.hits("B5"):
            self._note_otherwise(vm.box)
            return self.vm_row(vm, faults.rng("B5").choice(("RUNNING", "STARTING", "STOPPING")))
        return self.vm_row(self.market.vm(asked.box_id))

    def _named(self, asked: Request) -> Any:
        wanted = names.label_of(asked.body.message.name)
        for box in self.market.boxes.values():
            if box.label == wanted and parts(box.host)[0] == asked.body.message.parent_id:
                return self.vm_row(self.market.vms[box.id])
        raise Refused(No.MISSING, wanted)

    def _cap(self, asked: Request) -> Any:
        cap = self.market.caps.get(asked.box_id)
        if cap is None:
            raise Refused(No.MISSING, asked.box_id)
        return self.cap_row(cap)

    def _cap_named(self, asked: Request) -> Any:
        for cap in self.market.caps.values():
            if (cap.project, _cap_name(cap)) == (asked.body.message.parent_id, asked.body.message.name):
                return self.cap_row(cap)
        raise Refused(No.MISSING, asked.body.message.name)

    def _operation(self, asked: Request) -> Any:
        found = self.market.ops.get(asked.box_id)
        if found is None:
            raise Refused(No.MISSING, asked.box_id)
        return _op_row(found)

    # --- prices

    def _offers(self, _: Request) -> Any:
        market = self.market
        shown = [
            (host.machine_id, _text(market.prices[host.machine_id] if host.shown_floor is None else host.shown_floor))
            for host in market.hosts.values()
        ]
        key = ("prices", *shown)
        return self._remembered(key, lambda: ListSpotPricesResponse(items=[_price_row(*each) for each in shown]))

    def _past(self, asked: Request) -> Any:
        """The last hours at today's price: nobody has looked before."""
        wanted, shown = set(asked.body.message.filters.sku_ids), {}
        for host in self.market.hosts.values():
            now = _price_row(host.machine_id, _text(self.market.prices[host.machine_id]))
            if now.sku_id in wanted:
                moments = (at(self.ground.now_s - 900 * step) for step in range(PAST_STEPS))
                points = [SpotPricePoint(timestamp=each, value=now.price.value) for each in moments]
                shown[now.sku_id] = SpotPriceSeries(
                    sku_id=now.sku_id, region=now.region, currency="usd", unit_title="GPU hour", points=points
                )
        return ListSpotPriceSeriesResponse(items=list(shown.values()))

    def _estimate(self, asked: Request) -> Any:
        spec = asked.body.message.resource_spec
        if spec.compute_disk_spec is not None:
            host = next(iter(self.market.hosts.values()))
            cost = host.storage_price * (spec.compute_disk_spec.spec.size_gibibytes or 0) / 720
        else:
            wanted = spec.compute_instance_spec
            cost = self._host(wanted.metadata.parent_id, wanted.spec.resources).on_demand
        total = CostBreakdown(cost=f"{cost:f}")
        return EstimateResponse(hourly_cost=ResourceGroupCost(general=GeneralTotalCost(total=total)))

    def _host(self, project: str, resources: Any) -> Any:
        for host in self.market.hosts.values():
            if parts(host) == (project, resources.platform, resources.preset):
                return host
        raise Refused(No.INVALID, "spec.resources", "is not sold here")

    def _subnets(self, asked: Request) -> Any:
        project = asked.body.message.parent_id
        metadata = ResourceMetadata(id=f"vpcsubnet-{project[-7:]}", parent_id=project, name="default-subnet-sim")
        return ListSubnetsResponse(items=[Subnet(metadata=metadata)])

    # --- changes

    def _once(self, asked: Request, begin: Callable[[str], Op]) -> Any:
        """The same key brings the same operation."""
        key = asked.body.key
        assert key, "a change without a key cannot be known again"
        return _op_row(self.market.replayed(key) or begin(key))

    def _make_cap(self, asked: Request) -> Any:
        message, faults = asked.body.message, self.ground.faults
        if faults.hits("A7"):
            raise refusals.over_quota("billing.pricing-policy.count", 20, 21)
        spec = message.spec
        most = Decimal(spec.pricing.max_price_v1.max_price)
        platform, name = spec.compute_instance_spec.v1.platform, _name_of_cap(message.metadata.name)
        project = message.metadata.parent_id
        return self._once(asked, lambda key: self.market.make_cap(key, project, platform, name, most))

    def _drop_cap(self, asked: Request) -> Any:
        return self._ended(asked, self.market.drop_cap)

    def _drop_disk(self, asked: Request) -> Any:
        return self._ended(asked, self.market.drop_disk)

    def _ended(self, asked: Request, end: Callable[[str, str], Op]) -> Any:
        if self.ground.faults.hits("D2"):
            return Raw(500, "Internal Server Error")
        return self._once(asked, lambda key: end(key, asked.box_id))

    def _create(self, asked: Request) -> Any:
        metadata, spec = asked.body.message.metadata, asked.body.message.spec
        host = self._host(metadata.parent_id, spec.resources)
        if spec.preemptible is None or spec.recovery_policy != InstanceRecoveryPolicy.FAIL:
            raise Refused(No.INVALID, "spec.recovery_policy", "here everybody wants FAIL")
        label, cap_id = names.label_of(metadata.name), spec.spot_pricing_policy.id
        disk_gb, data = spec.boot_disk.managed_disk.spec.size_gibibytes, spec.cloud_init_user_data

        def begin(key: str) -> Op:
            op = self.market.make_vm(key, host, label, cap_id, disk_gb=disk_gb, data=data)
            if self.ground.faults.hits("A6"):
                vm = self.market.vms[op.subject]
                vm.is_recovering = vm.box.is_not_as_asked = True
            return op

        return self._once(asked, begin)

    def _bid(self, asked: Request) -> Any:
        """What an update leaves out it clears."""
        message = asked.body.message
        vm = self.market.vm(asked.box_id)
        if message.metadata.resource_version not in (0, vm.version):
            raise Refused(No.STATE, asked.box_id, "resource_version is not the present one")
        if message.spec.cloud_init_user_data != vm.user_data or names.label_of(message.metadata.name) != vm.box.label:
            raise Refused(No.INVALID, "spec", "the update would clear fields that cannot be cleared")
        cap_id = message.spec.spot_pricing_policy.id
        return self._once(asked, lambda key: self.market.swap_cap(key, asked.box_id, cap_id))

    def _start(self, asked: Request) -> Any:
        return self._once(asked, lambda key: self.market.start_vm(key, asked.box_id))

    def _stop(self, asked: Request) -> Any:
        return self._once(asked, lambda key: self.market.stop_vm(key, asked.box_id))

    def _destroy(self, asked: Request) -> Any:
        return self._ended(asked, self.market.delete_vm)

    # --- rows

    def vm_row(self, vm: Vm, state: str = "") -> Instance:
        box = vm.box
        project, platform, preset = parts(box.host)
        recovery = InstanceRecoveryPolicy.RECOVER if vm.is_recovering else InstanceRecoveryPolicy.FAIL
        disk = DiskSpec(type=DiskSpec.DiskType.NETWORK_SSD, size_gibibytes=box.disk_gb)
        spec = InstanceSpec(
            resources=ResourcesSpec(platform=platform, preset=preset),
            boot_disk=AttachedDiskSpec(managed_disk=ManagedDisk(name=names.name_of(box.label), spec=disk)),
            preemptible=PreemptibleSpec(on_preemption=PreemptibleSpec.PreemptionPolicy.STOP),
            recovery_policy=recovery,
            cloud_init_user_data=vm.user_data,
        )
        if vm.cap_id:
            spec.spot_pricing_policy = SpotPricingPolicySpec(id=vm.cap_id)
        else:
            spec.follows_spot_price = FollowsSpotPriceSpec()
        shown = state or self._state(vm)
        return Instance(
            metadata=ResourceMetadata(
                id=box.id,
                parent_id=project,
                name=names.name_of(box.label),
                resource_version=vm.version,
                created_at=at(box.created_s),
            ),
            spec=spec,
            status=InstanceStatus(
                state=getattr(InstanceStatus.InstanceState, shown), reconciling=vm.is_settling and not state
            ),
        )

    def _state(self, vm: Vm) -> str:
        box = vm.box
        if vm.is_deleting:
            return "DELETING"
        if box.shown is not None and box.state is not State.STOPPED:
            self._note_otherwise(box)
            return _SHOWN[box.shown]
        if box.state is State.STOPPED:
            return "STOPPED"
        if box.state is State.LOADING:
            return "STARTING"
        return "STOPPING" if vm.is_stopping else "RUNNING"

    def cap_row(self, cap: Cap) -> PricingPolicy:
        """Zeros at the end of its price are thrown away."""
        states, scheduling = PricingPolicyStatus.State, PricingPolicyStatus.SchedulingState
        is_blocked = self.market.is_blocked(cap)
        return PricingPolicy(
            metadata=ResourceMetadata(
                id=cap.id, parent_id=cap.project, name=_cap_name(cap), resource_version=7, created_at=at(cap.made_s)
            ),
            spec=PricingPolicySpec(
                compute_instance_spec=ComputeInstanceSpec(v1=ComputeInstanceSpecV1(platform=cap.platform)),
                pricing=PricingMethod(max_price_v1=MaxPriceV1(max_price=_text(cap.most))),
            ),
            status=PricingPolicyStatus(
                state=states.STATE_ACTIVE if cap.is_ready else states.STATE_CREATING,
                scheduling_state=(
                    scheduling.SCHEDULING_STATE_BLOCKED if is_blocked else scheduling.SCHEDULING_STATE_ALLOWED
                ),
                currency="usd",
            ),
        )

    def disk_row(self, disk_id: str, box: Box) -> Disk:
        owner = "" if box.is_gone else box.id
        return Disk(
            metadata=ResourceMetadata(
                id=disk_id,
                parent_id=parts(box.host)[0],
                name=names.name_of(box.label),
                created_at=at(box.created_s),
            ),
            status=DiskStatus(
                state=DiskStatus.State.READY, read_write_attachment=owner, size_bytes=box.disk_gb * 2**30
            ),
        )


def _price_row(machine_id: str, price: str) -> SpotPrice:
    region, platform, _ = machine_id.split("/")
    return SpotPrice(
        sku_id=f"sku-{region}-{platform}",
        region=region,
        compute_instance=SpotPriceComputeInstance(platform=platform),
        price=SpotPriceValue(value=price, currency="usd", unit_title="GPU hour"),
    )


def _type_row(project: str, platform: str, preset: str) -> Platform:
    resources = PresetResources(vcpu_count=16, memory_gibibytes=64, gpu_count=1)
    return Platform(
        metadata=ResourceMetadata(id=f"computeplatform-{platform}", parent_id=project, name=platform),
        spec=PlatformSpec(presets=[Preset(name=preset, resources=resources)], gpu_memory_gigabytes=24),
        status=PlatformStatus(allowed_for_preemptibles=True),
    )


def _op_row(op: Op) -> Operation:
    refusal = None if op.why is None else _REFUSALS[op.why](Refused(op.why, op.subject))
    made = MarketOperation(op.id, op.subject, at(op.begun_s), "change")
    if op.is_over:
        made.code = 0 if refusal is None else refusal.code
    if refusal is not None:
        made.message, made.error = refusal.message, refusal.packed
    return messages.operation(made)


def _cap_name(cap: Cap) -> str:
    name = names.name_of(cap.label)
    return name if cap.number == 1 else f"{name}-{cap.number}"


def _name_of_cap(name: str) -> tuple[str, int]:
    """Its machine's label, and its number."""
    label = names.label_of(name)
    rest = name.removeprefix(names.name_of(label))
    return label, int(rest.removeprefix("-") or 1)


def _text(amount: Decimal | float) -> str:
    """Zeros at the end are thrown away."""
    if isinstance(amount, float):
        return str(amount)
    return f"{amount:f}".rstrip("0").rstrip(".") or "0"
