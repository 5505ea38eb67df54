"""What vast.ai's rows have beside the fields that the simulated market sets, from the recorded answers.

A row that lacked them would be compared field by field as one that has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.simulation.ground.wire import Json

_ANSWERS = Path(__file__).parents[2] / "assets" / "vastai"
FAR_OFF_S = 4_000_000_000.0
"""The end of a host's contract: after that of any seed."""


def _read(name: str) -> Any:
    return json.loads((_ANSWERS / f"{name}.json").read_text())


OFFER: Json = {**_read("offer_bid")["offers"][0], "end_date": FAR_OFF_S}
INSTANCE: Json = {**_read("instance_running_bid")["instances"], "end_date": FAR_OFF_S}
ACCOUNT: Json = _read("user")
CHARGE: Json = _read("charges")["results"][0]
CHARGE_ITEM: Json = CHARGE["items"][0]
NOTICE: Json = _read("inbox_outbid")
CREATED: Json = _read("create_response_ok")
