"""How often the agent speaks with the store: often while something happens, seldom while nothing does. Pure.

Times are market seconds. What bounds the seldom: the daemon takes a machine for out of sight after three minutes
without a heartbeat and for silent after fifteen, and a permit must see its renewals several times over.
"""

from __future__ import annotations

from typing import Any

BRISK_S = 15.0
BRISK_FOR_S = 120.0
"""After each thing that is new."""
CALM_S = 30.0
"""Between two looks at the orders, and between two chunks of output."""
CALM_BEAT_S = 60.0
READS_OF_A_PERMIT = 20
"""Where a permit is so short that a calm look would see its renewals less often than this, looks stay brisk."""
ROUTINE = frozenset(
    ("seq", "orders_seq_seen", "step", "progress", "bytes_sent", "next_log_n", "readings", "save_s", "upload_s")
)
"""What is new in each heartbeat: it waits for the next one that goes."""
ANSWERLESS = frozenset(("last_ckpt_n", "next_ckpt_n", "next_part", "parts_wanted", "whole_parts", "error", "logs"))
"""Reported at once, but needs no prompt answer: an agent that lacks addresses asks for orders by itself."""
LOGS_APART = 4
"""New chunks of output after which addresses for more are asked for."""
EARLY_S = 5.0
"""By so much an act may be early: who looks each quarter of a minute must not come to three for two."""


class Pace:
    def __init__(self, now: float) -> None:
        self.brisk_until = now + BRISK_FOR_S
        self.done_at: dict[str, float] = {}
        self.reported: dict[str, Any] = {}  # what is not routine of the newest heartbeat that has arrived

    def apart_s(self, now: float, permit_ttl_s: float) -> float:
        """Between two looks at the orders, and two chunks of output."""
        if now < self.brisk_until:
            return BRISK_S
        return min(CALM_S, max(BRISK_S, permit_ttl_s / READS_OF_A_PERMIT))

    def is_due(self, act: str, now: float, apart_s: float) -> bool:
        return act not in self.done_at or now - self.done_at[act] >= apart_s - EARLY_S

    def note_done(self, act: str, now: float) -> None:
        self.done_at[act] = now

    def ask(self, act: str) -> None:
        """It is due, whenever it was done last."""
        self.done_at.pop(act, None)

    def must_tell(self, beat: dict[str, Any], now: float) -> bool:
        """Whether the heartbeat says anything new, or it is time for one."""
        apart_s = BRISK_S if now < self.brisk_until else CALM_BEAT_S
        return face_of(beat) != self.reported or self.is_due("beat", now, apart_s)

    def note_arrival(self, beat: dict[str, Any], now: float) -> None:
        """It has arrived."""
        before, self.reported = self.reported, face_of(beat)
        self.note_done("beat", now)
        if any(before.get(name) != said for name, said in self.reported.items() if name not in ANSWERLESS):
            self.brisk_until = now + BRISK_FOR_S


def face_of(beat: dict[str, Any]) -> dict[str, Any]:
    """What of a heartbeat somebody may wait for."""
    said = {name: value for name, value in beat.items() if name not in ROUTINE}
    return {**said, "logs": beat["next_log_n"] // LOGS_APART}
