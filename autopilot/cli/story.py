"""What happened to a job, in sentences. ``show --events`` has the same events as names and fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from autopilot.cli import text
from autopilot.domain.time import show_duration

Fields = Mapping[str, Any]
"""As the API answers them."""


def tell(event: Mapping[str, Any]) -> str:
    """One event as a sentence without its time."""
    name, fields = str(event["name"]), event.get("fields") or {}
    sentence = SENTENCES.get(name)
    if sentence is not None:
        return sentence(fields) if callable(sentence) else sentence
    kind, _, status = name.partition(".")
    if kind == "job":
        return f"the job is {text.words(status)}{_because(fields)}"
    return f"{text.words(name)} {text.numbers(fields)}".rstrip()


def _because(fields: Fields, key: str = "reason") -> str:
    return f": {text.words(fields[key])}" if fields.get(key) else ""


def _tell_intended(fields: Fields) -> str:
    what = f"{text.plain(fields.get('gpu'))} on {text.plain(fields.get('provider'))} machine"
    how = f"{text.words(fields.get('capacity_type'))} at {text.per_hour(fields.get('bid'))}"
    return f"rents {what} {text.plain(fields.get('machine_id'))}, {how}{_because(fields)}"


def _tell_refused(fields: Fields) -> str:
    return f"the market refused to rent it: {text.plain(fields.get('message') or text.words(fields.get('reason')))}"


def _tell_paused(fields: Fields) -> str:
    if fields.get("cause") == "outbid":
        return f"outbid at {text.per_hour(fields.get('bid'))}"
    return f"the market stopped the machine{_because(fields, 'cause')}"


def _tell_bid(fields: Fields) -> str:
    new, old = fields.get("bid"), fields.get("from")
    if new is None or old is None:
        return f"bids {text.per_hour(new)}"
    verb = "raises" if Decimal(new) > Decimal(old) else "lowers"
    return f"{verb} the bid from {text.per_hour(old)} to {text.per_hour(new)}"


def _tell_ordered(fields: Fields) -> str:
    return f"orders run {text.plain(fields.get('run_epoch'))} on the same machine{_because(fields)}"


def _tell_destroy(fields: Fields) -> str:
    sent = "asked the market to destroy the machine"
    return sent if fields.get("accepted") == "true" else f"{sent}; it did not say yes"


def _checkpoint_that(verb: str) -> Callable[[Fields], str]:
    def sentence(fields: Fields) -> str:
        size = text.size(fields.get("bytes"))
        by = f" by {text.plain(fields['by'])}" if fields.get("by") else ""
        number, step = text.plain(fields.get("number")), text.plain(fields.get("step"))
        return f"checkpoint {number} {verb}{by}, step {step}{size and ', ' + size}"

    return sentence


def _tell_loss(fields: Fields) -> str:
    return f"{show_duration(timedelta(seconds=float(fields.get('seconds') or 0)))} of work lost"


SENTENCES: Mapping[str, str | Callable[[Fields], str]] = {
    "job.submitted": "submitted",
    "lease.intended": _tell_intended,
    "lease.acquired": lambda fields: f"rented as instance {text.plain(fields.get('instance_id'))}",
    "lease.adopted": lambda fields: f"rented after a lost answer, as instance {text.plain(fields.get('instance_id'))}",
    "lease.refused": _tell_refused,
    "lease.create_unknown": "the market's answer is lost; the list of machines will show whether it was rented",
    "lease.abandoned": lambda fields: f"nothing was rented{_because(fields)}",
    "lease.running": lambda fields: f"the machine runs at {text.per_hour(fields.get('bid'))}",
    "lease.resumed": lambda fields: f"the machine is back at {text.per_hour(fields.get('bid'))}",
    "lease.paused": _tell_paused,
    "lease.offline": "the machine is offline",
    "lease.destroy_ignored": "the machine is still there; it will be destroyed again",
    "lease.gone": lambda fields: f"the machine is gone{_because(fields)}",
    "lease.start_intended": "asks the market to start the machine",
    "lease.start_failed": "the market did not start the machine",
    "lease.release_requested": lambda fields: f"gives the machine up{_because(fields)}",
    "lease.instance_found": lambda fields: f"instance {text.plain(fields.get('instance_id'))} was left behind",
    "lease.destroy_sent": _tell_destroy,
    "lease.promoted": lambda fields: f"run {text.plain(fields.get('run_epoch'))} is given to the machine",
    "lease.settled": "the market's bill is complete",
    "bid.intended": _tell_bid,
    "bid.changed": lambda fields: f"the bid is {text.per_hour(fields.get('bid'))}",
    "bid.refused": lambda fields: f"the market refused the bid; it stays {text.per_hour(fields.get('current_bid'))}",
    "run.stop_ordered": lambda fields: f"tells the machine to save and stop{_because(fields)}",
    "run.ordered": _tell_ordered,
    "run.exited": lambda fields: f"the command ended with exit code {text.plain(fields.get('exit_code'))}",
    "agent.reported": lambda fields: f"the agent is {text.words(fields.get('state'))}",
    "checkpoint.verified": _checkpoint_that("is safe"),
    "checkpoint.lost": _checkpoint_that("was harmed in the store"),
    "checkpoint.set_aside": _checkpoint_that("was set aside"),
    "work.lost": _tell_loss,
    "invoice.drifted": lambda fields: f"the market's bill differs from the ledger: {text.numbers(fields)}",
}
"""For each name in the event log; ``job.<status>`` has one sentence for all."""
