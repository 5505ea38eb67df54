"""A daemon that has no job records the floors of the GPUs that its settings watch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.stage import until
from tests.integration.service.service_world import a_patient_theatre

pytestmark = pytest.mark.slow
"""Five minutes of the market are five seconds here."""


def test_floors_are_recorded_by_a_daemon_without_a_job() -> None:
    with a_patient_theatre({"AUTOPILOT_HISTORY__WATCH": '["RTX 4090:1"]'}) as theatre:
        theatre.start_market()
        theatre.start_daemon()

        def recorded() -> list[Any]:
            markets = theatre.client.get("/v1/prices?gpu=4090&since=1d&steps=288")["markets"]
            return [step for market in markets for step in market["steps"] if step["low"]]

        until(lambda: len(recorded()) >= 3, "three records of floors")
        assert theatre.client.get("/v1/jobs")["jobs"] == []
        (market,) = theatre.client.get("/v1/prices?gpu=4090")["markets"]
        assert market["provider"] == "vastai"
        assert 1 < market["machines"] <= 8
        assert market["on_demand"] is None, "bids alone are searched"
