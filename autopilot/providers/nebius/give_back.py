"""Giving back: the machine with its disk, then its policies, and what an earlier giving back has left of either."""

from __future__ import annotations

from dataclasses import replace

from nebius.api.nebius.compute.v1 import DeleteDiskRequest, DeleteInstanceRequest, DiskServiceClient

from autopilot.ids import new_name
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.nebius import names, outcomes, wire
from autopilot.providers.nebius.client import NebiusClient
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.machines import VmCalls
from autopilot.providers.nebius.outcomes import Outcome
from autopilot.providers.nebius.policies import Policies
from autopilot.providers.nebius.reply import Fault, MarketRefused
from autopilot.providers.reading import NoReply

STOP_WAIT_S = 90.0
"""A machine that is stopped or deleted has a minute to shut down."""


class GiveBack:
    def __init__(self, settings: NebiusSettings, client: NebiusClient, policies: Policies, machines: VmCalls) -> None:
        self._settings = settings
        self._client = client
        self._policies = policies
        self._machines = machines
        self.names: dict[str, str] = {}
        """Machine that was given back → its name: what it leaves behind is shown under the machine's own id."""

    async def destroy(self, instance_id: str) -> Outcome:
        """The machine with its disk, then its policies. Done: the market says of each that it is gone."""
        try:
            if instance_id.startswith(wire.POLICY):
                return await self._destroy_policy(instance_id)
            if instance_id.startswith(wire.DISK):
                return await self._destroy_disk(instance_id)
            vm = await self._machines.vm(instance_id)
            name = vm.name if vm is not None else self.names.get(instance_id)
            if name is None:
                return Refused(RefusalCode.NOT_FOUND, f"there is no machine {instance_id}")
            if not names.is_ours(name):
                # Its user may have renamed it while no list was read. Policies are found by that name.
                return Refused(RefusalCode.INVALID, f"the machine is called {name!r} now: it is no longer ours")
            self.names[instance_id] = name
            if vm is not None:
                gone = await self._machines.change("delete", DeleteInstanceRequest(id=instance_id), STOP_WAIT_S)
                if not isinstance(gone, Done) and not _is_not_found(gone):
                    return gone
            return await self._clear_up(name)
        except MarketUnknown as error:
            return Unknown(str(error))

    async def _clear_up(self, name: str) -> Outcome:
        """What the machine ``name`` has left in any project. Raises ``MarketUnknown``."""
        outcome: Outcome = Done(None)
        for region, project in self._settings.projects.items():
            policies = await self._policies.of_machine(project, name)
            shown = await self._machines.project(region)
            # The machine itself may be in a list that lags.
            others = replace(shown, vms=tuple(vm for vm in shown.vms if vm.name != name))
            for policy in policies:
                if others.uses(policy):
                    continue
                deleted = await self._policies.delete(policy.policy_id)
                outcome = outcome if isinstance(deleted, Done) else deleted
            for disk in shown.disks:
                if disk.name == name and not shown.uses(disk):
                    deleted = await self._delete_disk(disk.disk_id)
                    outcome = outcome if isinstance(deleted, Done) else deleted
        return outcome

    async def _destroy_policy(self, policy_id: str) -> Outcome:
        """Only once its machine is gone, also where a user has renamed that or the policy: one that is stopped would be
        left without a cap. Raises ``MarketUnknown``."""
        policy = await self._policies.get(policy_id)
        if policy is None:
            return Refused(RefusalCode.NOT_FOUND, f"there is no policy {policy_id}")
        if not names.is_ours(policy.name):
            return Refused(RefusalCode.INVALID, f"the policy is called {policy.name!r} now: it is no longer ours")
        shown = [await self._machines.project(region) for region in self._settings.projects]
        if any(each.uses(policy) for each in shown) or await self._is_named(names.machine_of(policy.name)):
            return Refused(RefusalCode.INVALID, "the policy belongs to a machine that exists")
        return await self._policies.delete(policy_id)

    async def _is_named(self, name: str) -> bool:
        """Whether a machine so called exists in any project. Raises ``MarketUnknown``."""
        for project in self._settings.projects.values():
            if await self._machines.by_name(project, name) is not None:
                return True
        return False

    async def _destroy_disk(self, disk_id: str) -> Outcome:
        """With the policies of the machine that it belonged to. Raises ``MarketUnknown``."""
        for region in self._settings.projects:
            shown = await self._machines.project(region)
            for disk in shown.disks:
                if disk.disk_id == disk_id:
                    if not names.is_ours(disk.name):
                        return Refused(
                            RefusalCode.INVALID, f"the disk is called {disk.name!r} now: it is no longer ours"
                        )
                    if shown.uses(disk) or await self._is_named(disk.name):
                        return Refused(RefusalCode.INVALID, "the disk belongs to a machine that exists")
                    return await self._clear_up(disk.name)
        return Refused(RefusalCode.NOT_FOUND, f"there is no disk {disk_id}")

    async def _delete_disk(self, disk_id: str) -> Outcome:
        request = DeleteDiskRequest(id=disk_id)
        try:
            begun = await self._client.change(DiskServiceClient, "delete", request, new_name())
            ended = await self._client.finish(DiskServiceClient, begun, STOP_WAIT_S)
        except NoReply as error:
            return Unknown(str(error))
        except MarketRefused as error:
            return Done(None) if error.refusal.fault is Fault.NOT_FOUND else outcomes.judge_refusal(error.refusal)
        return Done(None) if ended.status is not None else Unknown(f"the disk {disk_id} is still being deleted")


def _is_not_found(outcome: Refused | Unknown) -> bool:
    return isinstance(outcome, Refused) and outcome.code is RefusalCode.NOT_FOUND
