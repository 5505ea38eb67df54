"""One instance: read, start, stop, label, re-bid, reboot, destroy; and the inbox that tells what befell it."""

from __future__ import annotations

import hashlib
from decimal import Decimal, InvalidOperation

from autopilot_lab.sandbox.market.lifecycle import Notice
from autopilot_lab.sandbox.market.market import InsufficientCredit, OrderRefused
from autopilot_lab.sandbox.vastai.calls import Call
from autopilot_lab.sandbox.vastai.replies import (
    OK,
    START_QUEUED,
    Failure,
    HttpReply,
    Json,
    failure,
    insufficient_credit,
    invalid_args,
)
from autopilot_lab.sandbox.vastai.rows import instance_row

_MIN_BID, _MAX_BID_PER_GPU = Decimal("0.001"), Decimal(32)
_MAX_LABEL = 1024


def show(call: Call) -> HttpReply:
    instance = call.market.instances.get(call.instance_id())
    if instance is None or instance.destroyed_at is not None:
        return HttpReply({"instances": None})
    row = instance_row(call.market, instance)
    if call.has_fault("null_fields"):
        row = {**row, "start_date": None, "extra_env": None}
    return HttpReply({"instances": row})


def change_state(call: Call) -> HttpReply:
    """``state`` running or stopped, or ``label``."""
    instance = call.instance()
    label = call.body.get("label")
    if isinstance(label, str):
        if call.scope is not None:
            raise failure(403, "not_authorized", "This key may not do that.")
        if len(label) > _MAX_LABEL:
            raise failure(400, "label_too_long", f"label is limited to {_MAX_LABEL} characters")
        call.market.relabel(instance.id, label)
        return OK
    return _set_state(call, instance.id, call.body.get("state"))


def change_state_bulk(call: Call) -> HttpReply:
    replies = []
    for instance_id in _ids(call, "ids"):
        if instance_id in {instance.id for instance in call.market.live()}:
            replies.append(_set_state(call, instance_id, call.body.get("state")))
        else:
            raise failure(404, "no_such_instance", "Instance with that ID does not exist.")
    return OK if all(reply == OK for reply in replies) else START_QUEUED


def change_bid(call: Call) -> HttpReply:
    instance = call.instance()
    price = _bid(call.body.get("price"))
    if price is not None and price > _MAX_BID_PER_GPU * len(instance.gpu_ids):
        raise invalid_args(f"Please set a bid price <= {_MAX_BID_PER_GPU * len(instance.gpu_ids)}.")
    try:
        call.market.change_bid(instance.id, price)
    except OrderRefused as refused:
        raise invalid_args(str(refused)) from None
    return OK


def reboot(call: Call) -> HttpReply:
    call.market.reboot(call.instance().id)
    return OK


def attach_key(call: Call) -> HttpReply:
    instance, key = call.instance(), call.body.get("ssh_key")
    if not isinstance(key, str) or not key.startswith("ssh-") or not key.isprintable():
        raise invalid_args("ssh_key must be a public key")
    if key not in instance.ssh_keys:
        instance.ssh_keys.append(key)
    return OK


def detach_key(call: Call) -> HttpReply:
    """By its place among those that are attached, from 1."""
    instance, number = call.instance(), call.path["key_id"]
    if not number.isdigit() or not 0 < int(number) <= len(instance.ssh_keys):
        raise failure(404, "invalid_id", "There is no such key.")
    del instance.ssh_keys[int(number) - 1]
    return OK


def destroy(call: Call) -> HttpReply:
    call.market.destroy(call.instance().id, by="customer" if call.scope is None else "instance")
    return OK


def destroy_bulk(call: Call) -> HttpReply:
    known = {instance.id for instance in call.market.live()}
    for instance_id in _ids(call, "instance_ids"):
        if instance_id in known:
            call.market.destroy(instance_id)
    return OK


def filters(call: Call) -> HttpReply:
    return HttpReply({"success": True, "filters": sorted({str(instance.label) for instance in call.market.live()})})


def inbox(call: Call) -> HttpReply:
    """Newest first."""
    notices = enumerate(call.market.lifecycle.notices)
    return HttpReply({"success": True, "notifications": [_notice_row(seq, notice) for seq, notice in notices][::-1]})


def _set_state(call: Call, instance_id: int, state: object) -> HttpReply:
    if state == "stopped":
        call.market.stop(instance_id)
        return OK
    if state != "running":
        raise invalid_args("state must be 'running' or 'stopped'")
    try:
        return OK if call.market.start(instance_id) else START_QUEUED
    except InsufficientCredit:
        raise insufficient_credit() from None
    except OrderRefused as refused:
        raise invalid_args(str(refused)) from None


def _bid(value: object) -> Decimal | None:
    """Raises ``Failure`` (400). ``None``: the price that wins now."""
    if value is None:
        return None
    too_low: Failure = invalid_args("Please set a bid price >= 0.001.")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise too_low
    try:
        price = Decimal(str(value))
    except InvalidOperation:
        raise too_low from None
    if not price.is_finite() or price < _MIN_BID:
        raise too_low
    return price


def _ids(call: Call, name: str) -> list[int]:
    ids = call.body.get(name)
    if not isinstance(ids, list) or not all(isinstance(instance_id, int) for instance_id in ids):
        raise invalid_args(f"{name} must be a list of instance IDs")
    return ids


def _notice_row(seq: int, notice: Notice) -> Json:
    associated: Json = {"instance_id": notice.instance_id, "machine_id": notice.machine_id}
    subject = f"Instance #{notice.instance_id}: {notice.kind.replace('_', ' ')}"
    message = subject
    if notice.kind == "outbid" and notice.new_min_bid is not None:
        associated |= {"new_min_bid": float(notice.new_min_bid), "your_bid": float(notice.price)}
        subject = f"Your Interruptible Instance #{notice.instance_id} Has Been Outbid"
        message = (
            f"Your interruptible instance {notice.instance_id} on machine {notice.machine_id} has been outbid and "
            f"will be stopped. Your bid was ${notice.price:.2f}/hr and the current minimum bid is "
            f"${notice.new_min_bid:.2f}/hr."
        )
    elif notice.kind == "instance_started":
        message = f"Instance {notice.instance_id} has started. You are being charged ${notice.price:.3f}/hr."
    return {
        "associated_id": associated,
        "created_at": notice.at.timestamp(),
        "event_id": hashlib.md5(f"{seq}:{notice.instance_id}".encode(), usedforsecurity=False).hexdigest(),
        "message": message,
        "notif_type": notice.kind,
        "subject": subject,
        "user_context": "client",
    }
