"""The Nebius market behind the engine's ``Provider`` protocol. A virtual machine is our instance; its cap and its disk
go with it."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import date, datetime, timedelta
from decimal import Decimal

from nebius.api.nebius.common.v1 import Operation
from nebius.api.nebius.compute.v1 import (
    Instance as VmMessage,
)
from nebius.api.nebius.compute.v1 import (
    InstanceServiceClient,
    SpotPricingPolicySpec,
    StartInstanceRequest,
    StopInstanceRequest,
    UpdateInstanceRequest,
)
from nebius.api.nebius.vpc.v1 import ListSubnetsRequest, ListSubnetsResponse, SubnetServiceClient

from autopilot.domain.drift import Drift
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.offer import Capabilities, DeadMan, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark, RemarkKind
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.nebius import mapping, names, outcomes, wire
from autopilot.providers.nebius.client import PAGE_ROWS, NebiusClient
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.create import VmRequest, difference, vm_message, vm_request
from autopilot.providers.nebius.give_back import STOP_WAIT_S, GiveBack
from autopilot.providers.nebius.machines import ProjectRows, VmCalls, readable_vm
from autopilot.providers.nebius.outcomes import Outcome
from autopilot.providers.nebius.pacing import Family
from autopilot.providers.nebius.policies import Policies
from autopilot.providers.nebius.quotas import read_quotas
from autopilot.providers.nebius.reply import Fault, MarketRefused
from autopilot.providers.nebius.search import OfferSearch
from autopilot.providers.nebius.series import read_series
from autopilot.providers.pacing import urgently
from autopilot.providers.reading import NoReply
from autopilot.providers.strangers import each_once

LEFT_OVER_AFTER = timedelta(minutes=30)
"""A policy or a disk without a machine is not shown before: its machine may be about to be made, or to be listed."""
NO_BILL = "this market exports its bill by the month, and that export is not read yet"


class NebiusProvider:
    name = mapping.PROVIDER
    capabilities = Capabilities(
        spot=True,
        on_demand=False,
        can_rebid=True,
        pauses_when_outbid=True,
        keeps_disk_when_stopped=True,
        reports_floor=True,
        bills_at_bid=False,
        shows_held_floors=True,
        is_pooled=True,
        boots_vm=True,
        rebid_needs_stop=True,
        resumes_by_itself=False,
        notice_s=60,
        has_bills=False,
        dead_man=DeadMan.POWERS_OFF,
    )
    kept_logins = None
    ssh_keys = None

    def __init__(self, settings: NebiusSettings, client: NebiusClient, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._policies = Policies(client)
        self._search = OfferSearch(settings, client, clock)
        self._machines = VmCalls(settings, client, self._policies, self._search)
        self._give_back = GiveBack(settings, client, self._policies, self._machines)
        self._subnets: dict[str, str] = {}
        """By project."""
        self._alive: dict[str, str] = {}
        """Machine → region: those that must be in the next list unless a read of their own says that they are gone."""
        self._failed: set[str] = set()
        """Machines for which no hardware was found when they were made."""
        self._account_id = hashlib.sha256(settings.api_key.get_secret_value().encode()).hexdigest()
        self._untold_states: set[str] = set()
        """Unknown states that were remarked already."""
        self._creating: set[asyncio.Task[Done[Created] | Refused | Unknown]] = set()

    # -- reading

    async def instances(self) -> tuple[Instance, ...]:
        expected = dict(self._alive)
        listed: list[Instance] = []
        alive: dict[str, str] = {}
        listed_ids: set[str] = set()
        for region in self._settings.projects:
            shown = await self._machines.project(region)
            listed_ids |= {vm.vm_id for vm in shown.vms}
            alive |= {vm.vm_id: region for vm in shown.vms if names.is_ours(vm.name)}
            for vm in shown.vms:
                policy = shown.policies.get(vm.policy_id)
                if policy is None and vm.policy_id and names.is_ours(vm.name):
                    policy = await self._policies.get(vm.policy_id)
                listed.append(await self._instance_of(vm, region, policy))
            listed += await self._left_over(shown)
        await self._confirm_lost([vm_id for vm_id in expected if vm_id not in listed_ids])
        self._alive = {vm_id: at for vm_id, at in self._alive.items() if vm_id not in expected} | alive
        self._failed &= set(self._alive)
        listed = each_once(listed, lambda each: each.instance_id, lambda each: each.label)
        found = {each.instance_id for each in listed}
        self._give_back.names = {vm_id: name for vm_id, name in self._give_back.names.items() if vm_id in found}
        return tuple(listed)

    async def _confirm_lost(self, missing: list[str]) -> None:
        """A list may lag behind: what was there a minute ago and is not in it now is asked for by itself."""
        for vm_id in missing:
            if await self._machines.vm(vm_id) is not None:
                raise MarketUnknown(f"the list is stale: it lacks machine {vm_id}, which exists")

    async def _instance_of(self, vm: wire.VmRow, region: str, policy: wire.PolicyRow | None) -> Instance:
        if vm.state not in mapping.STATES and vm.state not in self._untold_states and names.is_ours(vm.name):
            self._untold_states.add(vm.state)
            self._client.remarks.add(RemarkKind.UNKNOWN_WORDS, f"a machine is {vm.state}: it counts as running")
        presets = await self._search.presets(region)
        return mapping.instance(
            vm,
            region,
            policy,
            next((row for row in presets if (row.platform, row.preset) == (vm.platform, vm.preset)), None),
            await self._search.spot_price(region, vm.platform),
            await self._search.disk_price(region),
            start_failed=vm.vm_id in self._failed,
        )

    async def _left_over(self, shown: ProjectRows) -> list[Instance]:
        """What machines of ours that are gone have left: of each the disk, which is billed, or else the policies."""
        present = {vm.name for vm in shown.vms}
        gone = {name: vm_id for vm_id, name in self._give_back.names.items()}
        found: dict[str, Instance] = {}
        disk_price = await self._search.disk_price(shown.region)
        rows: list[wire.DiskRow | wire.PolicyRow] = [*shown.disks, *shown.policies.values()]
        for row in rows:
            name = names.machine_of(row.name)
            is_left = names.is_ours(row.name) and name not in present and name not in found and not shown.uses(row)
            is_old = row.created_at is not None and self._clock.now() - row.created_at >= LEFT_OVER_AFTER
            if is_left and (is_old or name in gone):
                found[name] = mapping.leftover(row, shown.region, disk_price, gone.get(name, ""))
        return list(found.values())

    async def instance(self, instance_id: str) -> Instance | None:
        if instance_id.startswith((wire.POLICY, wire.DISK)) or instance_id in self._give_back.names:
            # There is no single read of what a machine has left: the list says it.
            return next((each for each in await self.instances() if each.instance_id == instance_id), None)
        vm = await self._machines.vm(instance_id)
        if vm is None:
            return None
        policy = await self._policies.get(vm.policy_id) if vm.policy_id and names.is_ours(vm.name) else None
        return await self._instance_of(vm, self._alive.get(vm.vm_id, "") or await self._machines.region_of(vm), policy)

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        return await self._search.offers(query)

    async def gpu_names(self) -> tuple[str, ...]:
        return await self._search.gpu_names()

    async def account(self) -> Account:
        """No balance is known. Raises ``MarketUnknown`` if a project cannot be seen."""
        for region in self._settings.projects:
            await self._search.presets(region)
        return Account(credit=None, account_id=self._account_id)

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        raise MarketUnknown(NO_BILL)

    async def _subnet(self, project: str) -> str:
        """Raises ``MarketUnknown``."""
        if project not in self._subnets:
            rows = await self._client.rows(
                Family.ACCOUNT,
                SubnetServiceClient,
                lambda token: ListSubnetsRequest(parent_id=project, page_size=PAGE_ROWS, page_token=token),
                ListSubnetsResponse,
            )
            found = [each for each in rows if wire.check_id(each.metadata.id) is not None]
            # The one that each project comes with goes first.
            found.sort(key=lambda each: not each.metadata.name.startswith("default-subnet"))
            if not found:
                raise MarketUnknown(f"project {project} has no subnet: make one in the console", RefusalCode.NO_RIGHTS)
            self._subnets[project] = found[0].metadata.id
        return self._subnets[project]

    # -- changing

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """Done means that the machine is made: it may still be looking for hardware. Cancelling this while it waits
        for its turn sends nothing; after that the request runs to its end."""
        try:
            wanted = vm_request(request)
            project = self._settings.projects.get(wanted.region)
            if project is None:
                raise ValueError(f"no project in {wanted.region} is set in [providers.nebius]")
        except ValueError as error:
            return Refused(RefusalCode.INVALID, str(error))
        async with self._client.lane(Family.CREATE):
            sending = asyncio.create_task(self._create(wanted, project))
            self._creating.add(sending)
            sending.add_done_callback(self._creating.discard)
            return await asyncio.shield(sending)

    async def _create(self, wanted: VmRequest, project: str) -> Done[Created] | Refused | Unknown:
        try:
            subnet = await self._subnet(project)
            cap = await self._cap(wanted.region, wanted.platform, wanted.preset, wanted.bid)
        except MarketUnknown as error:
            # Nothing was sent that could have made anything.
            return Refused(error.code or RefusalCode.RATE_LIMITED, str(error))
        if cap <= 0:
            return Refused(RefusalCode.BID_TOO_LOW, "a cap must be at least a tenth of a cent per GPU")
        policy = await self._policies.make(wanted.name, project, wanted.platform, cap)
        if isinstance(policy, Refused):
            self._note_words(policy)
            return policy
        message = vm_message(wanted, project, subnet, policy.policy_id, self._settings.image_family)
        try:
            begun = await self._client.send(InstanceServiceClient, "create", message, wanted.name, Family.CREATE)
        except NoReply as error:
            return Unknown(str(error))
        except MarketRefused as error:
            if error.refusal.fault is Fault.NAME_TAKEN:
                return await self._look_up(wanted, project, policy.policy_id)
            await self._policies.delete(policy.policy_id)
            outcome = outcomes.judge_refusal(error.refusal)
            self._note_words(outcome)
            return outcome
        return await self._place(begun, wanted, policy.policy_id)

    async def _cap(self, region: str, platform: str, preset: str, bid: Decimal) -> Decimal:
        """$/h of a GPU. Raises ``MarketUnknown``."""
        rows = await self._search.presets(region)
        row = next((each for each in rows if (each.platform, each.preset) == (platform, preset)), None)
        if row is None:
            raise MarketUnknown(f"{platform} {preset} is not sold in {region}", RefusalCode.OFFER_GONE)
        bounds = [
            await self._search.highest_cap(region, platform, preset, row.num_gpus),
            self._policies.highest(self._settings.projects[region], platform),
        ]
        return mapping.cap_for(bid, row.num_gpus, min((each for each in bounds if each is not None), default=None))

    async def _place(self, begun: Operation, wanted: VmRequest, policy_id: str) -> Done[Created] | Refused | Unknown:
        """The machine is made. It is read back, and hardware is waited for a little."""
        vm_id = wire.check_id(begun.resource_id)
        if vm_id is None:
            return Unknown("the machine was made, and the answer does not name it")
        self._alive[vm_id] = wanted.region
        try:
            await self._client.finish(InstanceServiceClient, begun, self._settings.placement_wait_s)
        except MarketRefused as error:
            self._failed.add(vm_id)
            return outcomes.judge_refusal(error.refusal, vm_id)
        return await self._judge(vm_id, wanted, policy_id)

    async def _judge(self, vm_id: str, wanted: VmRequest, policy_id: str) -> Done[Created] | Refused | Unknown:
        try:
            made = await self._machines.vm(vm_id)
        except MarketUnknown as error:
            return Unknown(f"the machine was made, and cannot be read: {error}", vm_id)
        if made is None:
            return Unknown("the machine was made, and is not there", vm_id)
        differing = difference(made, wanted, policy_id)
        if differing is not None:
            return Refused(RefusalCode.WRONG_TERMS, differing, vm_id)
        return Done(Created(vm_id))

    async def _look_up(self, wanted: VmRequest, project: str, policy_id: str) -> Done[Created] | Refused | Unknown:
        """The name is unique to one create: a machine that has it is what an earlier attempt made."""
        try:
            vm = await self._machines.by_name(project, wanted.name)
        except MarketUnknown as error:
            return Unknown(f"the name {wanted.name} is taken, and by what cannot be read: {error}")
        if vm is None:
            return Unknown(f"the name {wanted.name} is taken, and nothing has it")
        self._alive[vm.vm_id] = wanted.region
        return await self._judge(vm.vm_id, wanted, policy_id)

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        """For a stopped machine: replaces its policy by another one. This does not start it."""
        try:
            message = await self._machines.vm_message(instance_id)
            if message is None:
                return Refused(RefusalCode.NOT_FOUND, f"there is no machine {instance_id}")
            vm = readable_vm(message)
            if vm.state != "STOPPED" or vm.is_settling:
                return Refused(RefusalCode.INVALID, "the machine must be stopped to change its cap")
            region = self._alive.get(instance_id) or await self._machines.region_of(vm)
            project = self._settings.projects[region]
            cap = await self._cap(region, vm.platform, vm.preset, bid)
            mine = await self._policies_of(vm, project)
            presets = await self._search.presets(region)
        except MarketUnknown as error:
            return Refused(error.code or RefusalCode.RATE_LIMITED, f"nothing was changed: {error}")
        num_gpus = next(row.num_gpus for row in presets if (row.platform, row.preset) == (vm.platform, vm.preset))
        if cap <= 0:
            return Refused(RefusalCode.BID_TOO_LOW, "a cap must be at least a tenth of a cent per GPU")
        if any(row.policy_id == vm.policy_id and row.max_price == cap for row in mine):
            return Done(cap * num_gpus)
        name = names.policy_name(vm.name, {row.name for row in mine})
        policy = await self._policies.make(name, project, vm.platform, cap)
        if isinstance(policy, Refused):
            return policy
        outcome = await self._swap_policy(message, policy.policy_id)
        if not isinstance(outcome, Done):
            if isinstance(outcome, Refused):
                await self._policies.delete(policy.policy_id)
            return outcome
        for row in mine:
            await self._policies.delete(row.policy_id)
        return Done(cap * num_gpus)

    async def _policies_of(self, vm: wire.VmRow, project: str) -> list[wire.PolicyRow]:
        """All that were made for it. A list may lag: one without the policy that holds now would have the next one made
        under the same name, and the market gives out the old one for that. Raises ``MarketUnknown``."""
        listed = await self._policies.of_machine(project, vm.name)
        if vm.policy_id in ("", *(row.policy_id for row in listed)):
            return listed
        own = await self._policies.get(vm.policy_id)
        return [*listed, own] if own is not None and names.is_of(own.name, vm.name) else listed

    async def _swap_policy(self, message: VmMessage, policy_id: str) -> Outcome:
        """An update clears all that it leaves out, so it sends the whole machine back as it was read."""
        message.spec.spot_pricing_policy = SpotPricingPolicySpec(id=policy_id)
        request = UpdateInstanceRequest(metadata=message.metadata, spec=message.spec)
        outcome = await self._machines.change("update", request, STOP_WAIT_S)
        if not isinstance(outcome, Done):
            return outcome
        try:
            after = await self._machines.vm(message.metadata.id)
        except MarketUnknown as error:
            return Unknown(f"the cap was changed, and cannot be read: {error}")
        if after is None or after.policy_id != policy_id:
            return Unknown("the cap was changed, and another one holds")
        return Done(None)

    async def start(self, instance_id: str) -> Outcome:
        """Refused where the market finds no hardware within the time that is waited for it."""
        if wire.check_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a machine id of this market: {instance_id!r}")
        wait_s = self._settings.placement_wait_s
        return await self._machines.change("start", StartInstanceRequest(id=instance_id), wait_s, may_go_on=True)

    async def stop(self, instance_id: str) -> Outcome:
        """A stop that is not over would bill on: Done says that it is."""
        if wire.check_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a machine id of this market: {instance_id!r}")
        with urgently():
            return await self._machines.change("stop", StopInstanceRequest(id=instance_id), STOP_WAIT_S)

    async def destroy(self, instance_id: str) -> Outcome:
        """Done: the market says of the machine, its disk and its policies that they are gone."""
        if wire.check_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a machine id of this market: {instance_id!r}")
        with urgently():
            return await self._give_back.destroy(instance_id)

    def _note_words(self, outcome: Refused | Unknown) -> None:
        """A plain "no" that has no code of its own."""
        if isinstance(outcome, Refused) and outcome.code is RefusalCode.INVALID:
            self._client.remarks.add(RemarkKind.UNKNOWN_WORDS, outcome.message)

    async def start_words(self, instance_id: str) -> str:
        """A machine reports by itself what its boot lacks."""
        return ""

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        return await read_series(self._search, self._client, query, since, until)

    async def quotas(self) -> tuple[AccountQuota, ...]:
        return await read_quotas(self._settings, self._client)

    def drifts(self) -> tuple[Drift, ...]:
        """None: answers are read by the vendor's own descriptors, in which what is new is left out."""
        return ()

    def reported_time(self) -> ReportedTime | None:
        """Its answers over gRPC are not known to tell it."""
        return None

    def remarks(self) -> tuple[Remark, ...]:
        return self._client.remarks.list()

    async def close(self) -> None:
        """Lets a create that is under way finish."""
        if self._creating:
            await asyncio.wait(set(self._creating))
        await self._client.close()
