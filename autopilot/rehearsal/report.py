"""The verdict as JSON, in words, and as a badge. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autopilot.rehearsal.advice import NAMES
from autopilot.rehearsal.observed import RehearsalSeen
from autopilot.rehearsal.verdict import RehearsalVerdict

BADGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{text}">'
    '<rect width="{width}" height="20" rx="3" fill="{colour}"/>'
    '<text x="6" y="14" fill="#fff" font-family="Verdana,sans-serif" font-size="11">{text}</text></svg>'
)
GOOD, BAD = "#2e7d32", "#b71c1c"
CHAR_PX = 7


def as_json(seen: RehearsalSeen, verdict: RehearsalVerdict, price: float | None) -> dict[str, Any]:
    lost = [run.lost_by for run in seen.course if run.lost_by is not None]
    return {
        "sound": verdict.is_sound,
        "findings": [
            {"kind": each.kind.value, "said": each.said, "advice": each.advice, "is_suspicion": each.is_suspicion}
            for each in verdict.findings
        ],
        "framework": seen.framework or None,
        "losses": [{"kind": loss.kind.value, "keeps_disk": loss.keeps_disk} for loss in lost],
        "redone_steps": list(verdict.redone_steps),
        "step_s": verdict.pace_s,
        "loss_costs_s": verdict.loss_costs_s,
        "loss_costs_usd": cost_of(verdict, price),
        "checkpoint": {
            "bytes": seen.checkpoint.bytes,
            "save_s": seen.checkpoint.save_s,
            "interval_s": seen.checkpoint.interval_s,
            "interval_steps": seen.checkpoint.interval_steps,
            "verified": seen.verified,
        },
        "memory_bytes": seen.memory_bytes,
        "output_bytes": seen.output_bytes,
        "not_reached": [*verdict.unproven, *seen.not_reached],
        "not_isolated": list(seen.not_isolated),
        "badge": badge(verdict, len(lost)),
    }


def cost_of(verdict: RehearsalVerdict, price: float | None) -> float | None:
    """Dollars of one loss, at dollars an hour."""
    return None if price is None or verdict.loss_costs_s is None else verdict.loss_costs_s / 3600 * price


def badge(verdict: RehearsalVerdict, losses: int) -> str:
    """An SVG to keep beside a README, without any network."""
    text = (
        f"rehearsed: survives {losses} losses"
        if verdict.is_sound
        else "rehearsed: not proven"
        if not verdict.findings
        else "rehearsed: does not survive"
    )
    return BADGE.format(width=CHAR_PX * len(text) + 12, text=text, colour=GOOD if verdict.is_sound else BAD)


def in_words(seen: RehearsalSeen, verdict: RehearsalVerdict, price: float | None) -> Iterator[str]:
    losses = sum(run.lost_by is not None for run in seen.course)
    if verdict.is_sound:
        yield f"sound: it resumed after each of {losses} losses"
    elif not verdict.findings:
        missed = ", ".join(verdict.unproven) or "no loss was followed by a run that told its steps"
        yield f"not proven: {missed}; give it more --minutes"
    for each in verdict.findings:
        yield f"{each.kind.value}{' (a suspicion)' if each.is_suspicion else ''}: {each.said}"
        yield f"  change: {each.advice}"
    yield f"framework: {NAMES[seen.framework]}"
    yield from measures(seen, verdict, price)
    yield from (f"not reached: {each}" for each in (*verdict.unproven, *seen.not_reached))
    yield from (f"not isolated: {each}" for each in seen.not_isolated)


def measures(seen: RehearsalSeen, verdict: RehearsalVerdict, price: float | None) -> Iterator[str]:
    saved = seen.checkpoint
    if saved.bytes:
        every = f", every {saved.interval_s:.1f} s" if saved.interval_s else ""
        yield f"checkpoint: {saved.bytes / 1e6:,.2f} MB, written in {saved.save_s:.1f} s{every}"
    if verdict.loss_costs_s is not None:
        dollars = cost_of(verdict, price)
        money = "" if dollars is None else f", ${dollars:.4f}"
        minutes = verdict.loss_costs_s / 60
        yield f"a loss costs: {minutes:.2f} minutes of work done twice{money}, and a new machine's start"
    yield f"memory: {seen.memory_bytes / 1e6:,.0f} MB; output: {seen.output_bytes:,} bytes"
