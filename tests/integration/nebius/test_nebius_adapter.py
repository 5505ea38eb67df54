"""Nebius's adapter on the sandbox: what it makes of every kind of answer, and that it leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.labels import label_for
from autopilot.domain.offer import OfferQuery
from autopilot.ports.provider import CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS, TENANT
from tests.contract.harness import QuickClock
from tests.contract.nebius_harness import NebiusHarness, nebius_harness
from tests.contract.provider_contract import LABEL, OTHER_LABEL, listed, rent, request, running, seen
from tests.patience import PATIENCE_S

D = Decimal


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


@pytest.fixture
async def made(tmp_path: Path, clock: QuickClock) -> AsyncIterator[NebiusHarness]:
    async with nebius_harness(tmp_path, clock) as harness:
        yield harness


async def asked(made: NebiusHarness, label: str = LABEL, rate: Decimal | None = None) -> CreateRequest:
    return request(made, await made.make_offer_available(), label, rate)


def left(made: NebiusHarness) -> list[object]:
    """Of everything that there ever was: machines, disks, policies."""
    market = made.sandbox.nebius
    return [
        *(vm.order.name for vm in market.vms.values() if not vm.is_gone or vm.has_left_disk),
        *(policy.name for policy in market.policies.values()),
    ]


async def only(made: NebiusHarness) -> Instance:
    (instance,) = await listed(made)
    return instance


# -- creates


async def test_under_a_blocked_policy_no_machine_is_made(made: NebiusHarness) -> None:
    outcome = await made.provider.create(await asked(made, rate=D("0.500")))
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.instance_id) == (RefusalCode.BID_TOO_LOW, None)
    assert not made.sandbox.nebius.vms
    assert left(made) == []


async def test_a_cap_is_never_above_what_the_market_takes(made: NebiusHarness) -> None:
    outcome = await made.provider.create(await asked(made, rate=D("9.000")))
    assert isinstance(outcome, Done)
    assert (await only(made)).bid == D("5.39")


async def test_where_the_bound_cannot_be_reckoned_it_is_learnt_from_the_refusal(made: NebiusHarness) -> None:
    wanted = await asked(made, rate=D("9.000"))
    async with made.fault("estimate", "internal"):
        first = await made.provider.create(wanted)
        assert isinstance(first, Refused)
        assert first.code is RefusalCode.INVALID
        assert "5.39" in first.message
        assert isinstance(await made.provider.create(wanted), Done)
    assert (await only(made)).bid == D("5.39")


async def test_a_create_that_finds_no_hardware_names_what_it_left_and_that_is_given_back(made: NebiusHarness) -> None:
    async with made.fault("create", "no_hardware"):
        outcome = await made.provider.create(await asked(made))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE
    assert outcome.instance_id is not None
    instance = await only(made)
    assert (instance.status, instance.start_failed) == (InstanceStatus.STOPPED, True)
    assert instance.storage_rate > 0
    assert await made.provider.destroy(outcome.instance_id) == Done(None)
    assert left(made) == []
    assert await listed(made) == ()


async def test_a_quota_is_refused_in_words(made: NebiusHarness) -> None:
    await made.control("quota", policies=0)
    none = await made.provider.create(await asked(made))
    assert isinstance(none, Refused)
    assert (none.code, none.instance_id) == (RefusalCode.QUOTA, None)
    assert "billing.pricing-policy.count" in none.message
    await made.control("quota", policies=9, vms=0)
    one = await made.provider.create(await asked(made))
    assert isinstance(one, Refused)
    assert one.code is RefusalCode.QUOTA
    assert "compute.instance.count" in one.message
    assert one.instance_id is not None
    assert await made.provider.destroy(one.instance_id) == Done(None)
    assert left(made) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("bad_request", RefusalCode.INVALID),
        ("unauthenticated", RefusalCode.NO_RIGHTS),
        ("no_permission", RefusalCode.NO_RIGHTS),
        ("rate_limited", RefusalCode.RATE_LIMITED),
        ("over_quota", RefusalCode.QUOTA),
        ("conflict", RefusalCode.RATE_LIMITED),
    ],
)
async def test_a_plain_no_to_a_create_leaves_no_policy(made: NebiusHarness, kind: str, code: RefusalCode) -> None:
    async with made.fault("create", kind):
        outcome = await made.provider.create(await asked(made))
    assert isinstance(outcome, Refused)
    assert outcome.code is code
    assert left(made) == []
    assert (await made.control("requests"))["create"] == 1, "one try"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unavailable", "internal", "aborted", "effect_then_unavailable", "garbled", "empty"])
async def test_an_unknown_outcome_is_not_sent_again(made: NebiusHarness, kind: str) -> None:
    async with made.fault("create", kind):
        outcome = await made.provider.create(await asked(made))
    assert isinstance(outcome, Unknown)
    assert (await made.control("requests"))["create"] == 1
    assert len(made.sandbox.nebius.vms) == (0 if kind in ("unavailable", "internal", "aborted") else 1)


async def test_an_answer_that_never_comes_is_unknown(made: NebiusHarness) -> None:
    wanted, hasty = await asked(made), made.connect(timeout_s=2)
    async with made.fault("create", "effect_then_hang", hang_s=PATIENCE_S):
        assert isinstance(await hasty.create(wanted), Unknown)
    await hasty.close()
    assert (await only(made)).label == LABEL


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unavailable", "internal", "conflict", "rate_limited", "effect_then_unavailable"])
async def test_without_a_policy_no_machine_is_asked_for(made: NebiusHarness, kind: str) -> None:
    async with made.fault("policy", kind, times=1):
        outcome = await made.provider.create(await asked(made))
    if kind == "effect_then_unavailable":
        assert isinstance(outcome, Done), "it is there under its name"
        return
    assert isinstance(outcome, Refused)
    assert outcome.instance_id is None
    assert not made.sandbox.nebius.vms


async def test_a_machine_other_than_asked_for_is_named(made: NebiusHarness) -> None:
    async with made.fault("create", "another_preset"):
        outcome = await made.provider.create(await asked(made))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.WRONG_TERMS
    assert outcome.instance_id is not None


async def test_the_same_create_again_finds_the_machine_that_it_made(made: NebiusHarness) -> None:
    wanted = await asked(made)
    first = await made.provider.create(wanted)
    assert isinstance(first, Done)
    assert await made.provider.create(wanted) == first
    assert len(made.sandbox.nebius.vms) == len(made.sandbox.nebius.policies) == 1


async def test_another_machine_of_that_name_is_not_taken_for_it(made: NebiusHarness) -> None:
    wanted = await asked(made)
    async with made.fault("create", "name_conflict"):
        assert isinstance(await made.provider.create(wanted), Unknown)


async def test_the_user_data_has_the_environment_and_machines_stay_off(made: NebiusHarness) -> None:
    await rent(made)
    (vm,) = made.sandbox.nebius.vms.values()
    assert vm.order.user_data == "#!/bin/sh\nexport GREETING='it'\"'\"'s $HOME'\ntrue"
    assert vm.order.fails_for_good


async def test_what_the_market_would_turn_down_is_not_sent(made: NebiusHarness) -> None:
    wanted = await asked(made)
    for change in ({"onstart": "x" * 32_768}, {"offer_id": "nowhere/gpu/x"}, {"offer_id": "../x"}, {"label": "x" * 65}):
        values = {name: getattr(wanted, name) for name in wanted.__dataclass_fields__}
        outcome = await made.provider.create(CreateRequest(**{**values, **change}))
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.INVALID
    assert "create" not in await made.control("requests")


# -- keys


def credentials() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {
        "type": "JWT",
        "alg": "RS256",
        "kid": "publickey-1",
        "iss": "serviceaccount-1",
        "sub": "serviceaccount-1",
    }
    return json.dumps({"subject-credentials": {**account, "private-key": pem}})


async def test_a_service_account_gets_one_token_for_all_its_calls(tmp_path: Path, clock: QuickClock) -> None:
    async with nebius_harness(tmp_path, clock, {"api_key": credentials()}) as made:
        await made.provider.account()
        await made.provider.instances()
        assert (await made.control("requests"))["token"] == 1


async def test_a_key_that_is_refused_is_said_to_be_so_at_once(tmp_path: Path, clock: QuickClock) -> None:
    async with nebius_harness(tmp_path, clock, {"api_key": credentials()}) as made:
        async with made.fault("token", "unauthenticated"):
            with pytest.raises(MarketUnknown) as refused:
                await made.provider.account()
        assert refused.value.code is RefusalCode.NO_RIGHTS


async def test_an_unknown_token_has_no_rights(tmp_path: Path, clock: QuickClock) -> None:
    async with nebius_harness(tmp_path, clock, {"api_key": "another"}) as made:
        with pytest.raises(MarketUnknown) as refused:
            await made.provider.account()
        assert refused.value.code is RefusalCode.NO_RIGHTS


# -- reads


@pytest.mark.parametrize("kind", ["garbled", "repeated_token", "endless_list", "unavailable", "no_permission", "empty"])
@pytest.mark.parametrize("on", ["list", "policies", "disks", "platforms"])
async def test_a_list_that_cannot_be_believed_is_none(made: NebiusHarness, on: str, kind: str) -> None:
    await rent(made)
    fresh = made.connect() if on == "platforms" else made.provider
    async with made.fault(on, kind):
        if on == "disks" and kind == "empty":
            await fresh.instances()  # nothing is made of a disk that has its machine
            return
        with pytest.raises(MarketUnknown):
            await fresh.instances()
    assert len([each for each in await fresh.instances() if each.label == LABEL]) == 1


async def test_a_list_that_lags_behind_is_found_out(made: NebiusHarness) -> None:
    await rent(made)
    async with made.fault("list", "stale_list", lag_s=3600):
        with pytest.raises(MarketUnknown, match="stale"):
            await made.provider.instances()


async def test_without_prices_a_machine_costs_its_cap(made: NebiusHarness) -> None:
    instance_id = await running(made)
    made.clock.advance(120)
    async with made.fault("price", "internal"):
        instance = await made.provider.instance(instance_id)
    assert instance is not None
    assert instance.computes_at == instance.bid
    assert (await only(made)).computes_at < instance.bid


async def test_only_what_is_free_is_offered_where_a_tenant_is_set(tmp_path: Path, clock: QuickClock) -> None:
    async with nebius_harness(tmp_path, clock, {"tenant": TENANT}) as made:
        before = await made.provider.offers(made.query)
        await made.control("gpus", region="us-central1", platform="gpu-h200-sxm", gpus=0)
        made.clock.advance(300)
        after = await made.provider.offers(made.query)
    assert {offer.location for offer in before} == set(PROJECTS)
    assert {offer.location for offer in after} == {"eu-north1"}


async def test_a_whole_machine_costs_as_many_times_its_gpus(made: NebiusHarness) -> None:
    query = OfferQuery((("H200", 1), ("H200", 8)), D(40), D(40), verified_only=True, datacenter_only=False)
    floors = {(offer.location, offer.num_gpus): offer.floor for offer in await made.provider.offers(query)}
    for region in PROJECTS:
        assert floors[region, 8] == (floors[region, 1] or 0) * 8


async def test_an_offer_tells_what_its_preset_and_boot_image_have(made: NebiusHarness) -> None:
    query = OfferQuery((("H200", 1), ("H200", 8)), D(40), D(40), verified_only=True, datacenter_only=False)
    hosts = {(offer.location, offer.num_gpus): offer.host for offer in await made.provider.offers(query)}
    one, eight = hosts["us-central1", 1], hosts["us-central1", 8]
    assert (one.cpus, one.cuda, one.country, one.region) == (D(16), D("13.0"), "US", "us-central1")
    assert one.ram_gb == D(200) * 2**30 / 10**9
    assert one.shm_gb == one.ram_gb / 2
    assert eight.cpus == D(128)
    assert hosts["eu-north1", 1].country == "", "its name does not say it"


async def test_names_of_gpus_are_standard_ones(made: NebiusHarness) -> None:
    assert set(await made.provider.gpu_names()) == {"H100 SXM", "H200", "RTX PRO 6000 S"}


# -- bids, stops and starts


async def test_the_cap_of_a_running_machine_is_kept(made: NebiusHarness) -> None:
    instance_id = await running(made)
    outcome = await made.provider.change_bid(instance_id, D("4.000"))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.INVALID


async def test_a_stopped_machine_gets_another_policy_and_the_old_one_goes(made: NebiusHarness) -> None:
    instance_id = await running(made)
    assert await made.provider.stop(instance_id) == Done(None)
    (before,) = made.sandbox.nebius.policies
    assert await made.provider.change_bid(instance_id, D("4.0004")) == Done(D("4.000"))
    (after,) = made.sandbox.nebius.policies.values()
    assert after.id != before
    assert (await only(made)).bid == D("4.000")
    requests = await made.control("requests")
    assert await made.provider.change_bid(instance_id, D("4.000")) == Done(D("4.000")), "it has that cap"
    assert (await made.control("requests"))["policy"] == requests["policy"]
    assert await made.provider.change_bid(instance_id, D("1.000")) is not None
    assert [policy.id for policy in made.sandbox.nebius.policies.values()] == [after.id], "a blocked one is deleted"


async def test_a_list_of_policies_that_lags_costs_no_machine_its_policy(made: NebiusHarness) -> None:
    """The next one would get the name of the one that holds, which the market would give out for it: a cap that is not
    the one asked for, to be deleted again."""
    instance_id = await running(made)
    assert await made.provider.stop(instance_id) == Done(None)
    (before,) = made.sandbox.nebius.policies
    async with made.fault("policies", "stale_list", lag_s=36_000):
        assert await made.provider.change_bid(instance_id, D("4.000")) == Done(D("4.000"))
    (after,) = made.sandbox.nebius.policies.values()
    assert after.id != before
    assert (await only(made)).bid == D("4.000")


async def test_a_stopped_machine_under_a_blocked_policy_is_not_started(made: NebiusHarness) -> None:
    instance_id = await running(made)
    await made.outbid(instance_id)
    stopped = await seen(made, instance_id, InstanceStatus.STOPPED)
    assert stopped.price_to_win is not None
    assert stopped.price_to_win > stopped.bid
    assert "above the cap" in stopped.message
    assert isinstance(await made.provider.start(instance_id), Refused)


async def test_hardware_that_is_taken_back_is_told_from_a_price(made: NebiusHarness) -> None:
    instance_id = await running(made)
    await made.control("reclaim", vm_id=instance_id)
    stopped = await seen(made, instance_id, InstanceStatus.STOPPED)
    assert stopped.price_to_win is not None
    assert stopped.price_to_win <= stopped.bid
    assert "not for its price" in stopped.message
    assert stopped.stopped_by is None, "no field tells it from a stop in the console"
    assert not stopped.start_failed


async def test_a_start_that_finds_no_hardware_is_refused(made: NebiusHarness) -> None:
    instance_id = await running(made)
    assert await made.provider.stop(instance_id) == Done(None)
    await made.control("gpus", vm_id=instance_id, gpus=0)
    outcome = await made.provider.start(instance_id)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE


async def test_a_machine_that_switches_itself_off_stays_off(made: NebiusHarness) -> None:
    instance_id = await running(made)
    await made.control("power_off", vm_id=instance_id)
    made.clock.advance(600)
    assert (await only(made)).status is InstanceStatus.STOPPED


# -- giving back


@pytest.mark.slow
async def test_what_does_not_go_at_once_shows_under_the_machine_s_own_id(made: NebiusHarness) -> None:
    instance_id = await running(made)
    async with made.fault("policy", "conflict"), made.fault("end", "left_disk", times=1):
        assert not isinstance(await made.provider.destroy(instance_id), Done)
        rest = await only(made)
        assert (rest.instance_id, rest.label, rest.status) == (instance_id, LABEL, InstanceStatus.STOPPED)
        assert await made.provider.instance(instance_id) is not None
    assert await made.provider.destroy(instance_id) == Done(None)
    assert left(made) == []
    assert await made.provider.instance(instance_id) is None


@pytest.mark.slow
@pytest.mark.parametrize("what", ["pricingpolicy", "computedisk"])
async def test_what_an_earlier_daemon_has_left_is_listed_once_it_is_old(made: NebiusHarness, what: str) -> None:
    instance_id = await running(made)
    market = made.sandbox.nebius
    if what == "computedisk":
        market.delete_vm("", market.vms[instance_id], leaves_disk=True)
    else:
        market.delete_vm("", market.vms[instance_id])
    made.clock.advance(60)
    made.sandbox.synchronise()
    made.provider = made.connect()
    assert await listed(made) == (), "its machine may be about to be made"
    made.clock.advance(1800)
    rest = await only(made)
    assert rest.instance_id.startswith(what)
    assert (rest.label, rest.intended_running) == (LABEL, False)
    assert (rest.storage_rate > 0) == (what == "computedisk")
    assert await made.provider.destroy(rest.instance_id) == Done(None)
    assert left(made) == []
    assert await listed(made) == ()


async def test_a_policy_or_a_disk_whose_machine_exists_is_never_deleted(made: NebiusHarness) -> None:
    await running(made)
    (policy,) = made.sandbox.nebius.policies
    (vm_id,) = made.sandbox.nebius.vms
    disk = vm_id.replace("computeinstance", "computedisk")
    for leftover in (policy, disk):
        outcome = await made.provider.destroy(leftover)
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.INVALID
    assert len(left(made)) == 2


async def test_a_renamed_machine_keeps_the_policy_and_the_disk_that_have_their_old_name(made: NebiusHarness) -> None:
    """Its user has taken it over: neither it nor what it uses is an orphan."""
    instance_id = await running(made)
    assert await made.provider.stop(instance_id) == Done(None)
    market = made.sandbox.nebius
    (policy,) = market.policies
    vm = market.vms[instance_id]
    vm.order = replace(vm.order, name="my-own")
    made.clock.advance(4000)
    made.provider = made.connect()
    instance = await only(made)
    assert (instance.instance_id, instance.label) == (instance_id, "my-own")
    outcome = await made.provider.destroy(policy)
    assert isinstance(outcome, Refused)
    assert outcome.message == "the policy belongs to a machine that exists"
    assert list(market.policies) == [policy]


async def test_a_policy_or_a_disk_that_was_renamed_is_not_ours_any_more(made: NebiusHarness) -> None:
    """Also where a list that lags has shown it under its old name."""
    instance_id = await running(made)
    market = made.sandbox.nebius
    market.delete_vm("", market.vms[instance_id], leaves_disk=True)
    (policy,) = market.policies.values()
    policy.name = "my-own"
    market.vms[instance_id].order = replace(market.vms[instance_id].order, name="my-own")
    for taken in (policy.id, instance_id.replace("computeinstance", "computedisk")):
        outcome = await made.provider.destroy(taken)
        assert isinstance(outcome, Refused)
        assert "it is no longer ours" in outcome.message
    assert left(made) == ["my-own", "my-own"]


async def test_a_machine_that_was_renamed_since_the_last_list_is_not_ours_any_more(made: NebiusHarness) -> None:
    instance_id = await running(made)
    market = made.sandbox.nebius
    vm = market.vms[instance_id]
    vm.order = replace(vm.order, name="my-own")
    (policy,) = market.policies.values()
    policy.name = "my-own"
    market.make_policy("", vm.order.project, "my-own-2", vm.order.platform, D("3.500"))
    outcome = await made.provider.destroy(instance_id)
    assert isinstance(outcome, Refused)
    assert outcome.message == "the machine is called 'my-own' now: it is no longer ours"
    assert list(market.vms) == [instance_id]
    assert len(market.policies) == 2


async def test_a_policy_that_was_there_before_is_not_deleted_for_its_cap(made: NebiusHarness) -> None:
    """A list that lags leaves its name free to be asked for again, and there may be a machine under it."""
    instance_id = await running(made)
    assert await made.provider.stop(instance_id) == Done(None)
    market = made.sandbox.nebius
    vm = market.vms[instance_id]
    market.make_policy("", vm.order.project, f"{vm.order.name}-2", vm.order.platform, D("3.500"))
    async with made.fault("policies", "stale_list", lag_s=36_000):
        outcome = await made.provider.change_bid(instance_id, D("4.000"))
    assert isinstance(outcome, Refused)
    assert "got $3.5" in outcome.message
    assert len(market.policies) == 2


async def test_policies_of_others_are_not_shown(made: NebiusHarness) -> None:
    market = made.sandbox.nebius
    market.make_policy("", PROJECTS["eu-north1"], "somebody-s", "gpu-h200-sxm", D("3.000"))
    made.clock.advance(4000)
    assert await listed(made) == ()


async def test_a_machine_of_another_install_keeps_its_policy(made: NebiusHarness) -> None:
    theirs = label_for("another", "01THEIRS")
    kept = await rent(made, theirs)
    mine = await rent(made, OTHER_LABEL)
    assert await made.provider.destroy(mine) == Done(None)
    (instance,) = await listed(made)
    assert (instance.instance_id, instance.label) == (kept, theirs)
    assert len(made.sandbox.nebius.policies) == 1


@pytest.mark.slow
@pytest.mark.parametrize("was_on", [True, False])
async def test_what_is_updated_in_a_console_was_not_outbid(made: NebiusHarness, was_on: bool) -> None:
    """Nothing says whether it is on meanwhile, so it counts as if it were."""
    instance_id = await running(made)
    if not was_on:
        assert await made.provider.stop(instance_id) == Done(None)
    await made.control("update", vm_id=instance_id, duration_s=60)
    updating = await only(made)
    assert updating.status is InstanceStatus.RUNNING
    assert updating.price_to_win is None
    await made.advance(61)
    assert (await only(made)).status is (InstanceStatus.RUNNING if was_on else InstanceStatus.STOPPED)


async def test_strangers_of_any_kind_leave_the_list_readable(made: NebiusHarness) -> None:
    """A policy without a cap, a machine in an unknown state, one that is named twice."""
    instance_id = await running(made)
    shown = await made.provider.instances()
    assert {each.label for each in shown if each.instance_id != instance_id} == {
        "colleague-notebook",
        "colleague-trainer",
    }
    assert len({each.instance_id for each in shown}) == len(shown) == 3
    assert made.provider.remarks() == ()


async def test_a_machine_of_ours_under_another_kind_of_policy_costs_the_price(made: NebiusHarness) -> None:
    instance_id = await running(made)
    made.sandbox.nebius.vms[instance_id].policy_id = "pricingpolicy-e00colleague"
    held = await only(made)
    assert held.status is InstanceStatus.RUNNING
    assert held.computes_at == held.bid > 0


# -- quotas


async def test_quotas_are_told_by_project(made: NebiusHarness) -> None:
    await rent(made)
    told = await made.provider.quotas()
    assert {quota.place for quota in told} == set(PROJECTS)
    machines = next(quota for quota in told if quota.name == "compute.instance.count")
    assert (machines.limit, machines.used, machines.is_used_up) == (50, 1, False)
    made.sandbox.nebius.most_policies = 1
    full = {quota.name for quota in await made.provider.quotas() if quota.is_used_up}
    assert full == {"billing.pricing-policy.count"}


async def test_quotas_that_are_not_told_are_unknown(made: NebiusHarness) -> None:
    async with made.fault("quotas", "no_permission"):
        with pytest.raises(MarketUnknown) as told:
            await made.provider.quotas()
    assert told.value.code is RefusalCode.NO_RIGHTS
