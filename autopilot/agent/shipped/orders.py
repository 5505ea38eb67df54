"""Reading the orders: everything that the agent goes by is there and of its type, or they are none."""

from __future__ import annotations

import json
import re
from typing import Any

ROLES = ("wait", "run", "save_and_stop", "leave")


def parse_taken_over(data: bytes) -> str | None:
    """What the market calls the machine that its user has taken over, where that is all that the orders say."""
    try:
        said = json.loads(data)
        return said["taken_over"] if said["v"] == 1 and isinstance(said["taken_over"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def parse_orders(data: bytes) -> dict[str, Any] | None:
    try:
        orders = json.loads(data)
        work, put, restore = orders["work"], orders["put_urls"], orders["restore"]
        numbers = [orders[key] for key in ("run_epoch", "seq", "permit_ttl_s", "checkpoint_interval_s")]
        texts = [work[key] for key in ("setup", "run", "workdir", "checkpoint_path", "progress")]
        numbers.append(work["stall_s"])
        flags = [work["as_root"], work["stall_fails"], work.get("in_bash", False)]  # older daemons do not say
        re.compile(work["progress"])
        texts += [*work["inputs"], *work["inputs"].values(), *work["outputs"]]
        texts += [*put["headers"], *put["headers"].values()]
        texts += [put["heartbeat"], put["exit"], orders["next_orders_url"], *work["env"].values()]
        for slot in put["log"]:
            numbers, texts = [*numbers, slot["boot"], slot["n"]], [*texts, slot["url"]]
        for slot in [*put["ckpt"], put["out"], *([restore] if restore else [])]:
            numbers = [*numbers, slot["n"], slot["first_part"]]
            texts = [*texts, slot["manifest_url"], *slot["part_urls"]]
        grant = orders["grant"]
        if grant:
            numbers.append(grant["at"])
            texts += [grant[name] for name in ("place", "base_url", "region", "key_id", "secret", "token")]
        code = orders.get("code")  # daemons of older versions do not write it
        if code:
            numbers += [code["size"], code["first_part"]]
            texts += [code["sha256"], *code["part_urls"]]
        check = orders.get("check")  # nor this
        if check:
            numbers.append(check["most_s"])
            texts += [check["put_url"], check["get_url"], *check["hosts"]]
        for slot in orders.get("left") or ():  # nor this
            numbers += [slot["n"], slot["first_part"]]
            texts += [slot["path"], slot["left_at"], slot["job"], slot["manifest_url"], *slot["part_urls"]]
        asked = orders.get("exec")
        if asked:
            numbers += [asked["timeout_s"], asked["issued_at"]]
            texts += [asked["id"], asked["command"], asked["url"]]
        texts += [orders["instance"], orders.get("job", "")]  # daemons of older versions do not say whose work it is
        if restore:
            texts.append(restore["lease"])
        whole = all(type(flag) is bool for flag in flags) and orders["v"] == 1 and orders["role"] in ROLES
        whole = whole and all(type(number) is int and number >= 0 for number in numbers)
        return orders if whole and all(isinstance(text, str) for text in texts) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, re.error):
        return None
