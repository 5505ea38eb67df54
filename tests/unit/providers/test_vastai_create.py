from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.instance import Instance
from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest
from autopilot.providers.vastai import create, mapping, wire
from autopilot.providers.vastai.config import VastaiSettings
from tests.unit.providers.vastai_samples import ASSETS, body

SETTINGS = VastaiSettings()
REQUEST = CreateRequest(
    label="ap1.install.lease",
    offer_id="111",
    machine_id="43567",
    capacity_type=CapacityType.SPOT,
    bid=Decimal("0.165"),
    image="pytorch/pytorch:latest",
    disk_gb=Decimal(40),
    env={"A": "b"},
    onstart="bash run.sh",
)


def rented(**changes: Any) -> Instance:
    return mapping.instance(wire.instance_row(body("instance_running_bid")["instances"] | changes))


def test_the_body_has_the_fields_of_a_recorded_create() -> None:
    lines = [json.loads(line) for line in (ASSETS / "requests_captured.jsonl").read_text().splitlines()]
    recorded = next(line["body"] for line in lines if line["path"] == "/api/v0/asks/111/" and line["body"])
    sent = create.body(REQUEST, Decimal("0.165"), SETTINGS)
    assert set(sent) == set(recorded)
    assert (sent["price"], sent["disk"], sent["env"]) == (0.165, 40, {"A": "b"})
    assert (sent["label"], sent["onstart"], sent["cancel_unavail"]) == ("ap1.install.lease", "bash run.sh", True)
    assert json.dumps(create.body(REQUEST, Decimal("0.1"), SETTINGS)["price"]) == "0.1"


def test_no_price_is_sent_on_demand_only() -> None:
    assert create.body(REQUEST, None, SETTINGS)["price"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"offer_id": "../users"},
        {"offer_id": ""},
        {"label": ""},
        {"label": "x" * 61},
        {"disk_gb": Decimal(7)},
        {"onstart": "x" * 4097},
        {"env": {"A": "x" * 257}},
        {"env": {f"A{n}": "x" * 256 for n in range(200)}},
    ],
)
def test_what_the_market_would_refuse_is_not_sent(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        create.body(dataclasses.replace(REQUEST, **change), Decimal("0.1"), SETTINGS)


def test_a_public_port_is_among_the_variables() -> None:
    request = dataclasses.replace(REQUEST, public_port=70_022)
    assert create.body(request, Decimal("0.1"), SETTINGS)["env"] == {"A": "b", "-p 70022:70022": "1"}


def test_a_rental_as_asked() -> None:
    assert create.difference(rented(dph_base=Decimal("0.16500001")), REQUEST, Decimal("0.165")) is None


@pytest.mark.parametrize("change", [{"is_bid": False}, {"dph_base": Decimal("0.166")}, {"dph_base": Decimal("0.164")}])
def test_a_rental_on_other_terms(change: dict[str, Any]) -> None:
    assert create.difference(rented(**change), REQUEST, Decimal("0.165")) is not None


@pytest.mark.parametrize(
    ("price", "as_asked"), [("0.42", True), ("0.41", True), ("0.42004", True), ("0.4202", False), ("0.5", False)]
)
def test_on_demand_may_only_be_cheaper_than_seen(price: str, as_asked: bool) -> None:
    request = dataclasses.replace(REQUEST, capacity_type=CapacityType.ON_DEMAND, bid=Decimal("0.42"))
    difference = create.difference(rented(is_bid=False, dph_base=Decimal(price)), request, None)
    assert (difference is None) is as_asked
