"""When the daemon dials its machines, on which markets it can, and what its line is worth in prices."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from autopilot.config.settings import USUAL_HOME_MBPS, BlobsSettings, ProviderSettings, Settings
from autopilot.domain.errors import UserError
from autopilot.markets.installed import every_market
from autopilot.ports.tunnels import TunnelFault
from autopilot.words.tunnels import FAULTS

EMULATED = ProviderSettings(base_url="http://127.0.0.1:1")


def settings(*real: str, emulated: str = "", **blobs: Any) -> Settings:
    providers = dict.fromkeys(real, ProviderSettings()) | ({emulated: EMULATED} if emulated else {})
    return Settings(blobs=BlobsSettings(**blobs), providers=providers)


@pytest.mark.parametrize(
    ("given", "is_over_ssh"),
    [
        (settings("vastai"), True),
        (settings("vastai", url="s3://b/p"), False),
        (settings("vastai", public_url="https://mailbox.example.org"), False),
        (settings("vastai", over_ssh=False), False),
        (settings(emulated="vastai"), False),
        (settings(emulated="vastai", over_ssh=True), True),
        (settings("vastai").on_paper(), False),
    ],
)
def test_machines_are_dialled_where_they_reach_nothing_else(given: Settings, is_over_ssh: bool) -> None:
    assert given.is_over_ssh is is_over_ssh


def test_a_market_whose_machines_cannot_be_dialled_needs_a_bucket() -> None:
    settings("vastai").check_mailbox()
    for market in every_market().keys() - {"vastai"}:
        with pytest.raises(UserError) as refused:
            settings("vastai", market).check_mailbox()
        assert f"machines of {every_market()[market].display_name} cannot be dialled" in refused.value.message
        assert "blobs.url to a bucket" in refused.value.hint


def test_without_a_line_of_ours_nobody_is_dialled() -> None:
    with pytest.raises(UserError, match="cannot reach this machine's mailbox"):
        settings("vastai", over_ssh=False).check_mailbox()


def test_the_line_here_stands_in_the_policy_s_numbers_where_storage_goes_over_it() -> None:
    assert settings("vastai").params.traffic.home_mbps == USUAL_HOME_MBPS
    assert settings("vastai", home_mbps=150).params.traffic.home_mbps == Decimal(150)
    assert settings("vastai", url="s3://b/p", home_mbps=150).params.traffic.home_mbps is None


def test_there_are_words_for_every_fault() -> None:
    assert FAULTS.keys() == {str(fault) for fault in TunnelFault}
