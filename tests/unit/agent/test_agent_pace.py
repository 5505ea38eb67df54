"""How often an agent asks the store: counted over an hour, with its own looks each quarter of a minute."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from autopilot.agent.shipped.pace import BRISK_S, CALM_BEAT_S, Pace
from autopilot.domain.evolve import HEARTBEAT_LASTS
from autopilot.domain.params import Params

HOUR = 3600
EVERY_TIME = int(HOUR / BRISK_S)
SAID: dict[str, Any] = {"seq": 0, "state": "running", "next_ckpt_n": 0, "next_log_n": 0, "exit": None, "notice": None}


def an_hour(
    ttl_s: float = 900, prints: bool = True, checkpoint_every: float = 600, new: str = "", new_every: float = 60
) -> Counter[str]:
    """Requests of the agent; ``new``: what changes of its heartbeat each ``new_every`` seconds."""
    pace, count, logs = Pace(-HOUR), Counter[str](), 0
    for now in range(0, HOUR, int(BRISK_S)):
        for act in ("orders", "logs") if prints else ("orders",):
            if pace.is_due(act, now, pace.apart_s(now, ttl_s)):
                pace.note_done(act, now)
                count[act] += 1
                logs += act == "logs"
        said = SAID | {"seq": now, "next_log_n": logs, "next_ckpt_n": now // checkpoint_every}
        beat = said | ({new: now // new_every} if new else {})
        if pace.must_tell(beat, now):
            pace.note_arrival(beat, now)
            count["beats"] += 1
    return count


def a_calm_pace() -> Pace:
    """At time 0 it has just told ``SAID``, which was not new."""
    pace = Pace(-2 * HOUR)
    for at in (-HOUR, 0):
        pace.note_arrival(SAID, at)
    return pace


def test_while_nothing_changes_it_asks_seldom() -> None:
    count = an_hour()
    assert count["orders"] <= EVERY_TIME / 2 + 5
    assert count["logs"] <= EVERY_TIME / 2 + 5
    assert count["beats"] <= HOUR / CALM_BEAT_S * 1.6, "those that tell of checkpoints and output included"
    assert an_hour(prints=False)["beats"] <= HOUR / CALM_BEAT_S + 10


@pytest.mark.parametrize("new", ["state", "exit", "notice", "restore_part"])
def test_what_is_new_is_told_at_once_and_asked_about_soon(new: str) -> None:
    pace = a_calm_pace()
    assert not pace.must_tell(SAID | {"seq": 1, "step": 7, "readings": {"load": 1}}, 15)
    beat = SAID | {new: "other"}
    assert pace.must_tell(beat, 15)
    pace.note_arrival(beat, 15)
    assert pace.apart_s(30, 900) == BRISK_S
    assert pace.apart_s(15 + HOUR, 900) > BRISK_S
    assert an_hour(new=new)["orders"] == EVERY_TIME


def test_steps_of_a_checkpoint_are_told_at_once_and_wait_for_no_answer() -> None:
    pace = a_calm_pace()
    assert pace.must_tell(SAID | {"last_ckpt_n": 0, "next_ckpt_n": 1}, 15)
    pace.note_arrival(SAID | {"last_ckpt_n": 0, "next_ckpt_n": 1}, 15)
    assert pace.apart_s(30, 900) > BRISK_S


def test_what_did_not_arrive_is_tried_again() -> None:
    pace = Pace(-HOUR)
    beat = SAID | {"state": "finished"}
    assert pace.must_tell(beat, 0)
    assert pace.must_tell(beat, 15)


def test_the_daemon_hears_it_several_times_before_it_takes_it_for_silent() -> None:
    apart = CALM_BEAT_S + BRISK_S  # it looks each so often itself
    assert 2 * apart < HEARTBEAT_LASTS.total_seconds()
    assert 10 * apart < Params().loading.silence_s


def test_a_short_permit_is_looked_after_as_often_as_ever() -> None:
    assert an_hour(ttl_s=240)["orders"] == EVERY_TIME
