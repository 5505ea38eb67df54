"""Registry logins that RunPod keeps, through the adapter: complete lists, three outcomes, nothing shown."""

from __future__ import annotations

import pytest

from autopilot.domain.registry import RegistryLogin
from autopilot.ports.provider import Done, MarketUnknown, RefusalCode, Refused, Unknown
from tests.integration.runpod.runpod_bench import Bench

LOGIN = RegistryLogin("ghcr.io", "me", "sentinel-password")


async def test_a_login_is_made_listed_and_deleted(bench: Bench) -> None:
    logins = bench.provider.kept_logins
    made = await logins.save("ap1.test.one", LOGIN)
    assert isinstance(made, Done)
    assert await logins.list() == (made.value,)
    assert await logins.delete(made.value.login_id) == Done(None)
    assert await logins.delete(made.value.login_id) == Done(None), "one that is not there is deleted"
    assert await logins.list() == ()


async def test_a_name_that_is_taken_is_refused_without_showing_the_login(bench: Bench) -> None:
    logins = bench.provider.kept_logins
    await logins.save("ap1.test.one", LOGIN)
    again = await logins.save("ap1.test.one", LOGIN)
    assert isinstance(again, Refused)
    assert again.code is RefusalCode.INVALID
    assert "sentinel" not in f"{again}{LOGIN}"


@pytest.mark.parametrize("kind", ["effect_then_reset", "effect_then_500"])
async def test_a_login_without_an_answer_is_unknown_and_is_there(bench: Bench, kind: str) -> None:
    await bench.fault(on="v2.registries", kind=kind)
    assert isinstance(await bench.provider.kept_logins.save("ap1.test.one", LOGIN), Unknown)
    assert [each.name for each in await bench.provider.kept_logins.list()] == ["ap1.test.one"]


async def test_a_list_that_cannot_be_read_is_no_list(bench: Bench) -> None:
    await bench.fault(on="v2.registries", kind="http_403")
    with pytest.raises(MarketUnknown) as problem:
        await bench.provider.kept_logins.list()
    assert problem.value.code is RefusalCode.NO_RIGHTS
