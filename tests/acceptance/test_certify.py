"""``autopilot certify`` as typed: a real daemon, the shipped agent, and markets that keep or break their claims."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from autopilot.markets.installed import claims_of
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, command, until

SETTLED = {market: {claim.id for claim in claims_of(market) if claim.step} for market in ("vastai", "runpod")}
REAL_S = 900
pytestmark = pytest.mark.slow


def certified(theatre: Theatre, market: str) -> Any:
    """Begun, followed to its end, and shown again once its bill is there."""
    done = command(theatre, "certify", market, "--budget", "$1.00", timeout_s=REAL_S)
    assert done.returncode in (0, 1), done.stderr
    assert "held: " in done.stdout

    def report() -> Any:
        again = command(theatre, "certify", market, "--resume", "--json", timeout_s=REAL_S)
        body = json.loads(again.stdout)
        return None if any(claim["verdict"] == "waiting" for claim in body["claims"]) else body

    return until(report, "the bill is there", REAL_S, every_s=5)


def verdicts(body: Any) -> dict[str, str]:
    return {claim["id"]: claim["verdict"] for claim in body["claims"] if claim["verdict"] != "open"}


@pytest.mark.parametrize("market", ["vastai", "runpod"])
def test_a_market_that_keeps_every_claim(market: str) -> None:
    with a_theatre((market,)) as theatre:
        theatre.start_market()
        theatre.start_daemon()
        body = certified(theatre, market)
        found = verdicts(body)
        # The sandbox gives real processes a real second between its signals, however long that is on its fast clock.
        found |= dict.fromkeys(found.keys() & {"sigterm-five-seconds"}, "held")
        # Its machines reach the mailbox by themselves: none is dialled.
        found |= {name: "held" for name, verdict in found.items() if (name, verdict) == ("ssh-forwards", "not_seen")}
        assert found == dict.fromkeys(SETTLED[market], "held")
        assert body["certificate"]["status"] is None
        assert 0 < Decimal(body["billed"]) <= 1
        path = theatre.root / "report.md"
        done = command(theatre, "certify", market, "--resume", "--report", str(path))
        assert done.returncode == 0
        assert body["certification"]["id"] not in path.read_text()
        assert "valid until" in done.stdout


def test_a_warning_before_a_pause_is_heard_by_the_machine_s_own_program() -> None:
    with a_theatre() as theatre:
        theatre.start_market()
        theatre.emu("claim", {"id": "no-sigterm"})
        theatre.emu("claim", {"id": "own-key-destroys"})
        theatre.start_daemon()
        found = verdicts(certified(theatre, "vastai"))
        assert {claim for claim, verdict in found.items() if verdict == "broken"} == {"no-sigterm", "own-key-destroys"}
        done = command(theatre, "certify", "vastai", "--resume")
        assert done.returncode == 1
        assert "autopilot certify accept vastai own-key-destroys" in done.stdout
        assert command(theatre, "certify", "accept", "vastai", "own-key-destroys").returncode == 0
        assert command(theatre, "certify", "vastai", "--resume").returncode == 0
