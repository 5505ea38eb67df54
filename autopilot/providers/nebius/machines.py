"""Machines as the market shows them, and changes of them: one attempt each, watched until it is over."""

from __future__ import annotations

from dataclasses import dataclass

from nebius.api.nebius.common.v1 import GetByNameRequest
from nebius.api.nebius.compute.v1 import (
    DiskServiceClient,
    GetInstanceRequest,
    InstanceServiceClient,
    ListDisksRequest,
    ListDisksResponse,
    ListInstancesRequest,
    ListInstancesResponse,
)
from nebius.api.nebius.compute.v1 import Instance as VmMessage

from autopilot.ids import new_name
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Unknown
from autopilot.providers.nebius import outcomes, wire
from autopilot.providers.nebius.client import PAGE_ROWS, NebiusClient
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.outcomes import Outcome
from autopilot.providers.nebius.pacing import Family
from autopilot.providers.nebius.policies import Policies
from autopilot.providers.nebius.reply import MarketRefused
from autopilot.providers.nebius.search import OfferSearch
from autopilot.providers.reading import NoReply


@dataclass(frozen=True, slots=True)
class ProjectRows:
    """What one project shows: machines, and what belongs to none of them."""

    region: str
    vms: tuple[wire.VmRow, ...]
    policies: dict[str, wire.PolicyRow]
    disks: tuple[wire.DiskRow, ...]

    def uses(self, row: wire.DiskRow | wire.PolicyRow) -> bool:
        """Whether a machine has that disk or is under that policy. Names do not count: users may change them."""
        if isinstance(row, wire.DiskRow):
            return bool(row.attached_to)
        return any(vm.policy_id == row.policy_id for vm in self.vms)


class VmCalls:
    def __init__(self, settings: NebiusSettings, client: NebiusClient, policies: Policies, search: OfferSearch) -> None:
        self._settings = settings
        self._client = client
        self._policies = policies
        self._search = search

    async def project(self, region: str) -> ProjectRows:
        """Raises ``MarketUnknown``. What a scope that is not seen would answer is told from an empty one by the kinds
        of machine, which are always there."""
        project = self._settings.projects[region]
        await self._search.presets(region)
        # Machines first: what is listed after them has its policy in the list, and a policy that has no machine here is
        # either old or too young to be shown.
        vms = await self._client.rows(
            Family.LIST,
            InstanceServiceClient,
            lambda token: ListInstancesRequest(parent_id=project, page_size=PAGE_ROWS, page_token=token),
            ListInstancesResponse,
        )
        policies = {row.policy_id: row for row in await self._policies.all(project)}
        disks = await self._client.rows(
            Family.LIST,
            DiskServiceClient,
            lambda token: ListDisksRequest(parent_id=project, page_size=PAGE_ROWS, page_token=token),
            ListDisksResponse,
        )
        try:
            return ProjectRows(
                region, tuple(map(wire.vm_row, vms)), policies, tuple(wire.disk_row(each) for each in disks)
            )
        except wire.UnreadableRow as error:
            raise MarketUnknown(str(error)) from error

    async def region_of(self, vm: wire.VmRow) -> str:
        """Region of a machine that was never listed here. Raises ``MarketUnknown``."""
        for region in self._settings.projects:
            if any(row.vm_id == vm.vm_id for row in (await self.project(region)).vms):
                return region
        raise MarketUnknown(f"machine {vm.vm_id} is in none of the projects that are set")

    async def vm(self, vm_id: str) -> wire.VmRow | None:
        message = await self.vm_message(vm_id)
        return None if message is None else readable_vm(message)

    async def vm_message(self, vm_id: str) -> VmMessage | None:
        """None only where the market says that there is none. Raises ``MarketUnknown``."""
        if wire.check_id(vm_id) is None:
            raise MarketUnknown(f"not a machine id of this market: {vm_id!r}")
        try:
            found = await self._client.get(
                Family.LIST, InstanceServiceClient, "get", GetInstanceRequest(id=vm_id), VmMessage
            )
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        if readable_vm(found).vm_id != vm_id:
            raise MarketUnknown(f"asked for machine {vm_id}, got another")
        return found

    async def by_name(self, project: str, name: str) -> wire.VmRow | None:
        """Exact and complete: None only where the market says that there is none. Raises ``MarketUnknown``."""
        request = GetByNameRequest(parent_id=project, name=name)
        try:
            found = await self._client.get(Family.LIST, InstanceServiceClient, "get_by_name", request, VmMessage)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        return readable_vm(found)

    async def change(self, method: str, request: object, within_s: float, *, may_go_on: bool = False) -> Outcome:
        try:
            begun = await self._client.change(InstanceServiceClient, method, request, new_name())
            ended = await self._client.finish(InstanceServiceClient, begun, within_s)
        except NoReply as error:
            return Unknown(str(error))
        except MarketRefused as error:
            return outcomes.judge_refusal(error.refusal)
        return Done(None) if may_go_on or ended.status is not None else Unknown(f"the {method} is still under way")


def readable_vm(message: VmMessage) -> wire.VmRow:
    """Raises ``MarketUnknown``."""
    try:
        return wire.vm_row(message)
    except wire.UnreadableRow as error:
        raise MarketUnknown(str(error)) from error
