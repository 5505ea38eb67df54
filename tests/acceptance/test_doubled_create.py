"""One create makes two pods, and no list shows either: real processes, and a daemon that cannot know of the other."""

from __future__ import annotations

from typing import Any
from urllib.request import Request, urlopen

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, is_settled, job_text, show, submit, until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

LISTS = ("myself", "v2.list")


def pods(theatre: Theatre) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = theatre.emu("runpod/instances")["instances"]
    return found


def mend(theatre: Theatre) -> None:
    urlopen(Request(f"{theatre.market_url}/_emu/runpod/faults", method="DELETE"), timeout=PATIENCE_S).close()


def test_the_pod_that_is_one_too_many_destroys_itself_and_the_other_finishes_the_job() -> None:
    with a_theatre(markets=("runpod",)) as theatre:
        theatre.start_market()
        for on in LISTS:
            theatre.emu("runpod/fault", {"on": on, "kind": "stale_list", "lag_s": 86_400, "times": None})
        theatre.emu("runpod/fault", {"on": "podRentInterruptable", "kind": "rented_twice", "times": None})
        theatre.start_daemon()
        job_id = submit(theatre, job_text(2500))

        def doubled() -> tuple[str, list[str]] | None:
            """The pod that the daemon holds, and those of its name that still are."""
            for lease in show(theatre, job_id)["leases"]:
                named = [pod for pod in pods(theatre) if pod["name"].endswith(lease["id"])]
                if lease["instance_id"] and len(named) == 2:
                    return lease["instance_id"], [pod["id"] for pod in named if pod["terminated_at"] is None]
            return None

        def has_ended() -> bool:
            found = doubled()
            return found is not None and found[1] == [found[0]]

        until(has_ended, "the other one's end")
        mend(theatre)
        body = until(lambda: (told := show(theatre, job_id)) and is_settled(theatre, told) and told, "the job's end")
        assert body["job"]["status"] == "succeeded"
        assert all(pod["terminated_at"] is not None for pod in pods(theatre))
