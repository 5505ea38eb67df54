"""A key is attached to one instance through the vendor's SDK, and what the market answers is told apart."""

from __future__ import annotations

import pytest

from autopilot.ports.provider import Done, RefusalCode, Refused, Unknown
from tests.integration.vastai.vastai_bench import Bench

KEY = "ssh-ed25519 AAAA autopilot"


async def test_a_key_is_attached_to_that_instance_alone(bench: Bench) -> None:
    instance_id = await bench.rent()
    keys = bench.provider.ssh_keys
    assert await keys.attach(instance_id, KEY) == Done(None)
    assert await keys.attach(instance_id, KEY) == Done(None)
    attached = {str(each.id): each.ssh_keys for each in bench.sandbox.market.instances.values()}
    assert {name: found for name, found in attached.items() if found} == {instance_id: [KEY]}


@pytest.mark.parametrize("kind", ["effect_then_reset", "effect_then_500", "bad_json"])
async def test_an_answer_that_is_lost_is_no_answer(bench: Bench, kind: str) -> None:
    instance_id = await bench.rent()
    await bench.fault("keys", kind)
    assert isinstance(await bench.provider.ssh_keys.attach(instance_id, KEY), Unknown)


async def test_an_instance_that_is_not_there(bench: Bench) -> None:
    outcome = await bench.provider.ssh_keys.attach("999", KEY)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.NOT_FOUND
    outcome = await bench.provider.ssh_keys.attach("../users", KEY)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.INVALID
