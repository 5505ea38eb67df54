"""A few values set in the commented settings file."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autopilot.config.edit import set_values
from autopilot.config.meeting import SERVICES, fill
from autopilot.config.paths import packaged_config
from autopilot.config.settings import BlobsSettings

PACKAGED = packaged_config().read_text()


def test_the_explanations_stay_and_the_value_is_at_its_place() -> None:
    text, kept = set_values(PACKAGED, {("limits", "day"): "$20", ("blobs", "url"): "s3://b/autopilot"})
    assert kept == []
    assert tomllib.loads(text) == tomllib.loads(PACKAGED) | {
        "limits": {"day": "$20"},
        "blobs": {"url": "s3://b/autopilot"},
    }
    assert len(text.splitlines()) == len(PACKAGED.splitlines())


def test_what_is_set_already_is_kept() -> None:
    text, _ = set_values(PACKAGED, {("limits", "day"): "$20"})
    again, kept = set_values(text, {("limits", "day"): "$30", ("limits", "month"): "$90"})
    assert kept == ["limits.day"]
    assert tomllib.loads(again)["limits"] == {"day": "$20", "month": "$90"}


def test_a_section_that_is_not_there_is_added() -> None:
    text, _ = set_values(
        '# mine\n[limits]\nday = "$1"\n\n[ledger]\n', {("blobs", "url"): "x", ("limits", "month"): "$5"}
    )
    assert tomllib.loads(text) == {"limits": {"day": "$1", "month": "$5"}, "ledger": {}, "blobs": {"url": "x"}}


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=30))
def test_any_text_is_read_back_as_it_was(value: str) -> None:
    text, _ = set_values(PACKAGED, {("blobs", "region"): value})
    assert tomllib.loads(text)["blobs"]["region"] == value


def test_each_service_s_answers_are_settings() -> None:
    for service in SERVICES:
        known = dict.fromkeys(service.asks, "some-name1")
        given_values: dict[str, Any] = {
            key: fill(getattr(service, key), known) for key in ("url", "endpoint", "region")
        }
        assert BlobsSettings(**{key: value for key, value in given_values.items() if value})
        assert "{bucket}" not in fill(service.rights, known)
