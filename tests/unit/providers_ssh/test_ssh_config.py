"""Settings of one's own machines, and what they change in those of all markets."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from autopilot.config.settings import BlobsSettings, ProviderSettings, Settings
from autopilot.domain.errors import UserError
from autopilot.providers.ssh.config import parse_settings
from autopilot.service.certificates import certify_rules

BOX = {"box": {"host": "gpu-box"}}


def machine(**more: Any) -> Any:
    return parse_settings({"machines": {"box": {"host": "gpu-box", **more}}}).machines["box"]


def test_a_host_is_enough() -> None:
    found = machine()
    assert (found.price, found.jobs, found.stated, found.windows) == (Decimal(0), 1, None, ())
    assert not found.owner_may_take_back


def test_all_may_be_stated() -> None:
    found = machine(price="$0.12", jobs=2, gpus="4090:2", vram_gb=24, hours=["sat 00:00-24:00"], time_zone="Asia/Tokyo")
    assert (found.price, found.stated, len(found.windows)) == (Decimal("0.12"), ("RTX 4090", 2), 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "-oProxyCommand=touch /tmp/x"},
        {"host": "two words"},
        {"host": ""},
        {"price": 0.5},
        {"price": "-1"},
        {"price": "$1001"},
        {"jobs": 0},
        {"jobs": 17},
        {"gpus": "RTX 4090:2"},
        {"vram_gb": 24},
        {"gpus": "RTX 9999:2", "vram_gb": 24},
        {"gpus": "RTX 4090:17", "vram_gb": 24},
        {"hours": ["mornings"]},
        {"time_zone": "Mars/Base"},
        {"time_zone": "../../etc/passwd"},
        {"directory": "a\nb"},
        {"colour": "red"},
    ],
)
def test_what_is_wrong_is_one_clear_error(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"\[providers\.ssh\] is wrong: machines\.box"):
        machine(**wrong)


@pytest.mark.parametrize("wrong", [{}, {"machines": {}}, {"machines": {"A b": {"host": "x"}}}, {"api_key": "x"}])
def test_machines_have_plain_names_and_there_is_one(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        parse_settings(wrong)


def settings(*others: str, **blobs: Any) -> Settings:
    providers = {"ssh": ProviderSettings(machines=BOX)} | dict.fromkeys(others, ProviderSettings())  # type: ignore[call-arg]
    return Settings(blobs=BlobsSettings(**blobs), providers=providers)


def test_nothing_is_bought_of_oneself_so_no_certificate_is_asked_for() -> None:
    both = settings("vastai")
    assert both.bought == {"vastai"}
    assert certify_rules(both).needed_on == {"vastai"}


def test_own_machines_need_an_address_and_in_a_network_of_ones_own_no_certificate_for_it() -> None:
    with pytest.raises(UserError, match="your own machines need the address"):
        settings().check_mailbox()
    settings(public_url="http://192.168.1.5:8484").check_mailbox()
    settings(url="s3://bucket/prefix").check_mailbox()
    with pytest.raises(UserError, match="machines rented on vastai cannot reach"):
        settings("vastai", public_url="http://192.168.1.5:8484").check_mailbox()
    assert not settings().is_over_ssh
