"""Planted bugs of virtual machines under caps: the cap, the disk and the stopped machine that are overlooked.

What they change is loaded when one of them is planted: the vendor's SDK takes a second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.runs.bug import Patches, bug


@bug("the pricing policy of a machine that is given back is believed deleted, and is not")
def _policy_leaked() -> Patches:
    from autopilot.ports.provider import Done
    from autopilot.providers.nebius.policies import Policies

    async def believed(self: Policies, policy_id: str) -> Done[None]:
        return Done(None)

    return [(Policies, "delete", believed)]


@bug("a disk that has outlived its virtual machine is not looked for")
def _disk_leaked() -> Patches:
    from autopilot.providers.nebius.machines import VmCalls

    project = VmCalls.project

    async def without_disks(self: VmCalls, region: str) -> Any:
        return replace(await project(self, region), disks=())

    return [(VmCalls, "project", without_disks)]


@bug("what machines have left, or what was made for one that never came, is not looked for")
def _leftovers_unseen() -> Patches:
    from autopilot.providers.nebius.adapter import NebiusProvider

    async def none(self: NebiusProvider, shown: Any) -> list[Any]:
        return []

    return [(NebiusProvider, "_left_over", none)]


@bug("a virtual machine that was preempted, and lies stopped, is believed gone")
def _preempted_vm_is_gone() -> Patches:
    from autopilot.providers.nebius.machines import VmCalls

    project, vm = VmCalls.project, VmCalls.vm

    async def without_stopped(self: VmCalls, region: str) -> Any:
        shown = await project(self, region)
        return replace(shown, vms=tuple(row for row in shown.vms if row.state != "STOPPED" or row.is_settling))

    async def unless_stopped(self: VmCalls, vm_id: str) -> Any:
        row = await vm(self, vm_id)
        return None if row is None or (row.state == "STOPPED" and not row.is_settling) else row

    return [(VmCalls, "project", without_stopped), (VmCalls, "vm", unless_stopped)]


@bug("the machine that a create without hardware leaves behind is forgotten")
def _unplaced_vm_forgotten() -> Patches:
    from autopilot.providers.nebius import outcomes

    judge = outcomes.judge_refusal

    def without_id(refusal: Any, instance_id: str | None = None) -> Any:
        return judge(refusal)

    return [(outcomes, "judge_refusal", without_id)]
