"""``[policy]``: each key sets one number of the policy, within bounds, and the daemon decides by it."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.config.policy import PolicySettings
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.domain.params import Params
from autopilot.service.certificates import certify_rules
from autopilot.service.wiring import engine_config

KEYS: dict[str, tuple[str, str, Any, Any]] = {
    "estimate_error": ("deadline", "estimate_error", 0.3, 0.3),
    "boot": ("timing", "boot_s", "5m", 300.0),
    "setup": ("timing", "setup_s", "20m", 1200.0),
    "resume": ("timing", "resume_s", "30s", 30.0),
    "image": ("traffic", "image_gb", "25GB", Decimal(25)),
    "upload": ("traffic", "upload_gb", "500MB", Decimal("0.5")),
    "markup": ("bids", "markup", "1.15", Decimal("1.15")),
    "bid_ceiling": ("bids", "ceiling_of_on_demand", "0.8", Decimal("0.8")),
    "max_rebids": ("bids", "max_rebids", 5, 5),
    "losses_per_hour": ("hazard", "preemptions_per_h", 0.5, 0.5),
    "loading_timeout": ("loading", "timeout_s", "40m", 2400.0),
    "longest_pause": ("waiting", "longest_pause_s", "1h", 3600.0),
    "least_saving": ("moves", "least_saving", "0.3", Decimal("0.3")),
    "least_stay": ("moves", "least_stay_s", "2h", 7200.0),
}


def numbers(params: Params) -> dict[tuple[str, str], object]:
    groups = {group.name: getattr(params, group.name) for group in fields(Params)}
    return {(name, each.name): getattr(group, each.name) for name, group in groups.items() for each in fields(group)}


def test_without_settings_the_policy_has_its_own_numbers() -> None:
    assert PolicySettings().params == Params()
    assert set(KEYS) == set(PolicySettings.model_fields)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_sets_one_number_of_the_daemon_s_policy(key: str, home: Path) -> None:
    group, number, written, value = KEYS[key]
    path = home / "autopilot.toml"
    path.write_text(f"[policy]\n{key} = {written if isinstance(written, int | float) else repr(written)}\n")
    settings = load_settings(path)
    params = engine_config(settings, "abcdefgh", certify_rules(settings)).params
    before, after = numbers(Params()), numbers(params)
    assert {where: after[where] for where in after if after[where] != before[where]} == {(group, number): value}


@pytest.mark.parametrize(
    ("key", "written", "words"),
    [
        ("boot", '"3h"', "policy.boot: must be 1s to 1h"),
        ("least_stay", '"2s"', "policy.least_stay: must be 1m to 1d"),
        ("markup", "0.9", "policy.markup: input should be greater than or equal to 1"),
        ("bid_ceiling", "1.5", "policy.bid_ceiling: input should be less than or equal to 0.95"),
        ("estimate_error", "nan", "policy.estimate_error: input should be"),
        ("image", "5", "policy.image: not a size"),
        ("marckup", "1.1", 'unknown key "marckup" in [policy]'),
    ],
)
def test_what_can_only_be_a_mistake_is_refused_at_its_line(key: str, written: str, words: str, home: Path) -> None:
    path = home / "autopilot.toml"
    path.write_text(f"[policy]\n{key} = {written}\n")
    with pytest.raises(UserError) as caught:
        load_settings(path)
    assert words in str(caught.value)
    assert "autopilot.toml:2" in str(caught.value)


def test_settings_of_paper_have_the_same_policy() -> None:
    settings = Settings(policy=PolicySettings(markup=Decimal("1.3")))
    assert settings.on_paper().policy.markup == Decimal("1.3")
