"""The picture of one job as a file: asked of the daemon here, drawn as its page draws it."""

from __future__ import annotations

import contextlib
import pkgutil
from pathlib import Path

from autopilot.answers.pages import DrawnLife
from autopilot.answers.prices import Prices
from autopilot.cli.answers import read
from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.domain.errors import UserError

DRAWN_BY = "autopilot.web.picture"
"""Named by text: of the two faces neither imports the other."""


def write_picture(client: JsonClient, reference: str, path: Path) -> None:
    """Raises ``ApiError`` for a job that there is not, ``UserError`` for a file that cannot be written."""
    page = pkgutil.resolve_name(DRAWN_BY)
    life, now = read(DrawnLife, client.get(job_path(reference, "life"))), client.market_now()
    prices = []
    for query in page.list_price_queries(life, now):
        with contextlib.suppress(DaemonError):  # never listed
            prices.append(read(Prices, client.get("/v1/prices", **query)))
    try:
        path.write_text(page.draw_job(life, prices, now), encoding="utf-8")
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}") from None
