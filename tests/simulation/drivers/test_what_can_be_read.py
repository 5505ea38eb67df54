"""Whether a list that shows a row otherwise can be read: the ground's truth and the product's readers say the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pytest

from autopilot.providers import values
from autopilot.providers.mithril import wire as mithril_wire
from autopilot.providers.runpod import wire as runpod_wire
from autopilot.providers.vastai import wire as vastai_wire
from tests.simulation.drivers.kills import SEED
from tests.simulation.ground.machines import REUSED_LABEL
from tests.simulation.ground.stories import STORIES
from tests.simulation.ground.wire import Json, Needs, drift
from tests.simulation.markets import mithril, runpod, vastai
from tests.simulation.runs.run import Play, run

OURS = "ap1.simulate.01SIM000000000000000000001"
LABELS = (OURS, REUSED_LABEL, "")
DRIFTS = 300
"""So many that each field drifts in each way."""


class Row(NamedTuple):
    needs: Needs
    drifting: tuple[str, ...]
    row: Json
    read: Callable[[object], object]


def draw_rows(label: str) -> dict[str, Row]:
    """Of a machine with that label on each market whose answers are JSON."""
    found: dict[str, Row] = {}

    async def rent(play: Play) -> None:
        markets: dict[str, Any] = play.world.markets
        boxes = {
            name: markets[name].rent_to_others(next(iter(markets[name].hosts.values())), label) for name in markets
        }
        bid = markets["mithril"].bids[boxes["mithril"].id]
        bid.machines.append(("inst_1", 0.0))
        of_mithril = mithril.Mithril(markets["mithril"])
        found["vastai"] = Row(
            vastai.NEEDS,
            vastai.DRIFTING,
            vastai.Vastai(markets["vastai"]).row(boxes["vastai"]),
            vastai_wire.listed_instance,
        )
        found["runpod"] = Row(
            runpod.NEEDS,
            runpod.DRIFTING,
            runpod.Runpod(markets["runpod"]).row(boxes["runpod"]),
            partial(runpod_wire.any_pod, runpod_wire.pod_row),
        )
        found["a bid"] = Row(mithril.BID_NEEDS, mithril.DRIFTING, of_mithril.bid_row(bid), mithril_wire.listed_bid)
        # What a machine does is wanted where its bid is known: not by the reader of a row.
        machine = of_mithril.machine_rows(bid)[0]
        found["a machine"] = Row(mithril.MACHINE_NEEDS, ("fid", "bid"), machine, mithril_wire.instance_row)

    run(SEED, replace(STORIES["machine from nowhere"], markets=("vastai", "runpod", "mithril")), play=rent)
    return found


def can_be_read(row: Row, changed: Json) -> bool:
    try:
        row.read(values.decode(json.dumps(changed)))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("market", ["vastai", "runpod", "a bid", "a machine"])
@pytest.mark.parametrize("label", LABELS, ids=["ours", "others", "unlabelled"])
def test_the_ground_knows_which_rows_can_be_read(market: str, label: str) -> None:
    row = draw_rows(label)[market]
    rng = random.Random(f"{market}/{label}")
    drifted = [drift(row.row, rng, row.drifting) for _ in range(DRIFTS)]
    wrong = [each for each in drifted if row.needs.are_met(each, row.row) != can_be_read(row, each)]
    assert can_be_read(row, row.row)
    assert row.needs.are_met(row.row, row.row)
    assert not [_differences(each, row.row) for each in wrong]
    assert {can_be_read(row, each) for each in drifted} == {True, False}


def _differences(changed: Json, row: Json) -> Json:
    return {name: changed.get(name, "(missing)") for name in row if repr(changed.get(name)) != repr(row[name])}
