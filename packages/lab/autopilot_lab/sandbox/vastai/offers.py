"""Searching and renting: ``/bundles/``, ``/search/asks/``, ``/asks/{id}/``."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from autopilot_lab.sandbox.market.exchange import Ask, NoSuchAsk
from autopilot_lab.sandbox.market.instances import Contract, Defect, RentOrder
from autopilot_lab.sandbox.market.market import CannotStart, InsufficientCredit
from autopilot_lab.sandbox.private_images import Login, refusal
from autopilot_lab.sandbox.vastai.calls import Call
from autopilot_lab.sandbox.vastai.query import OPERATORS, matches, sort_rows
from autopilot_lab.sandbox.vastai.replies import (
    Failure,
    HttpReply,
    Json,
    insufficient_credit,
    invalid_args,
    invalid_body,
    stale_ask,
    unavailable_ask,
)
from autopilot_lab.sandbox.vastai.rows import disk_only_row, hardware, offer_row

_TYPES = {
    "bid": True,
    "interruptible": True,
    "ask": False,
    "on-demand": False,
    "ondemand": False,
    "reserved": False,
}
_ALIASES = {
    "cuda_vers": "cuda_max_good",
    "display_active": "gpu_display_active",
    "dph": "dph_total",
    "dlperf_usd": "dlperf_per_dphtotal",
    "flops_usd": "flops_per_dphtotal",
    "driver_version": "driver_vers",
}
_NOT_FILTERED = frozenset({"rented"})
_DEFAULT_LIMIT = 64
_DEFAULT_STORAGE_GB = 8
_COUNTRY = re.compile(r",\s*([A-Z]{2})$")
_MAX_PRICE, _MIN_PRICE = Decimal(128), Decimal("0.001")
_MIN_DISK_GB = 8
_MAX_LABEL, _MAX_ENV_VALUE, _MAX_ENV, _MAX_COMMAND = 256, 256, 32_768, 4_096


def search(call: Call) -> HttpReply:
    return _search(call, call.body)


def search_by_url(call: Call) -> HttpReply:
    query = call.json_query("q", "{}")
    if not isinstance(query, dict):
        raise invalid_body()
    return _search(call, query)


def search_asks(call: Call) -> HttpReply:
    query = call.body.get("q")
    if not isinstance(query, dict):
        raise invalid_body()
    return _search(call, query)


def create(call: Call) -> HttpReply:
    ask_id = call.path["id"]
    if not ask_id.isascii() or not ask_id.isdigit() or len(ask_id) > 18:
        raise invalid_args("error 400/3467: Invalid args: 'id' is required and must be a valid offer ID")
    return HttpReply(_rent(call, int(ask_id)))


def create_bulk(call: Call) -> HttpReply:
    ids = call.body.get("ids")
    if not isinstance(ids, list) or not all(isinstance(ask_id, int) for ask_id in ids):
        raise invalid_args("error 400/3467: Invalid args: 'ids' must be a list of offer IDs")
    results: list[object] = []
    for ask_id in ids:
        try:
            results.append(_rent(call, ask_id))
        except Failure as failed:
            results.append(failed.reply.body)
    return HttpReply({"success": True, "results": results})


def _search(call: Call, query: Json) -> HttpReply:
    refused = call.site.quota.refuse(call.market.now)
    if refused is not None:
        return refused
    kind = query.get("type", "on-demand")
    if kind not in _TYPES:
        raise invalid_body()
    limit = query.get("limit", _DEFAULT_LIMIT)
    storage_gb = _decimal(query.get("allocated_storage", _DEFAULT_STORAGE_GB))
    if not isinstance(limit, int) or limit < 0 or storage_gb is None:
        raise invalid_body()
    conditions = {name: value for name, value in query.items() if _is_condition(value)}
    rows = [row for row in _rows(call, _TYPES[str(kind)], storage_gb, conditions) if meets(row, conditions)]
    rows = sort_rows(rows, _order(query.get("order", [["score", "desc"]])))
    if not query.get("disable_bundling"):
        rows = _bundle(rows)
    rows = rows[:limit]
    call.site.quota.count(len(rows))
    return HttpReply({"success": True, "offers": rows})


def _rows(call: Call, is_bid: bool, storage_gb: Decimal, conditions: Json) -> list[Json]:
    market = call.market
    rows = [
        offer_row(ask, is_bid=is_bid, storage_gb=storage_gb, tenant_holds=_tenant_holds(call, ask), now=market.now)
        for ask in market.asks(lambda spec, count: meets(hardware(spec, count), conditions))
    ]
    return rows + [disk_only_row(row) for row in rows[:1]]


def _tenant_holds(call: Call, ask: Ask) -> bool:
    tenants = call.market.tenants_of(ask.machine)
    return any(instance.holding and not set(ask.chunk).isdisjoint(instance.gpu_ids) for instance in tenants)


def _is_condition(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and set(value) <= OPERATORS


def meets(row: Json, conditions: Json) -> bool:
    """Conditions on fields that no row has are ignored; nothing is found by offer id."""
    if "id" in conditions:
        return False
    for name, condition in conditions.items():
        field = _ALIASES.get(name, name)
        if field in _NOT_FILTERED or (field not in row and field != "datacenter"):
            continue
        if not matches(_filter_value(row, field), condition):
            return False
    return True


def _filter_value(row: Json, field: str) -> object:
    if field == "verified":
        return row["verification"] == "verified"
    if field == "datacenter":
        return row["hosting_type"] == 1
    if field == "geolocation":
        country = _COUNTRY.search(str(row[field]))
        return country[1] if country else row[field]
    return row[field]


def _order(order: object) -> list[tuple[str, str]]:
    if not isinstance(order, list):
        raise invalid_body()
    columns: list[tuple[str, str]] = []
    for item in order:
        if not isinstance(item, list) or len(item) != 2:
            raise invalid_body()
        columns.append((_ALIASES.get(str(item[0]), str(item[0])), str(item[1])))
    return columns


def _bundle(rows: Iterable[Json]) -> list[Json]:
    """One row for each machine and size: the first rentable one, or the first."""
    chosen: dict[tuple[object, object], Json] = {}
    for row in rows:
        key = (row["machine_id"], row["num_gpus"])
        if key not in chosen or (row["rentable"] and not chosen[key]["rentable"]):
            chosen[key] = row
    return list(chosen.values())


def _rent(call: Call, ask_id: int) -> Json:
    try:
        instance: Contract = call.market.create(_parse_order(call, ask_id))
    except NoSuchAsk:
        raise stale_ask(ask_id) from None
    except CannotStart:
        is_known = "refusals-are-known" not in call.market.broken
        raise (unavailable_ask(ask_id) if is_known else invalid_args("Computer says no.")) from None
    except InsufficientCredit:
        raise insufficient_credit() from None
    success = instance.holding or instance.order.start_stopped
    return {"success": success, "new_contract": instance.id, "instance_api_key": instance.api_key}


def _parse_order(call: Call, ask_id: int) -> RentOrder:
    """Raises ``Failure`` (400) for what the provider would not take."""
    body = call.body
    price = _parse_price(body.get("price"))
    disk = _decimal(body.get("disk", 10))
    if disk is None or disk < _MIN_DISK_GB:
        raise invalid_args(f"disk must be at least {_MIN_DISK_GB} GB")
    label = _text(body, "label", _MAX_LABEL)
    image = _text(body, "image", 1024)
    if not image and not body.get("template_hash_id"):
        raise invalid_args("image is required")
    onstart = _text(body, "onstart", _MAX_COMMAND)
    args = body.get("args") or []
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        raise invalid_args("args must be a list of strings")
    if len(onstart or "") + sum(len(arg) for arg in args) > _MAX_COMMAND:
        raise invalid_args(f"onstart and args are limited to {_MAX_COMMAND} characters")
    if any("\0" in text for text in (onstart or "", *args)):
        raise invalid_args("null characters are not allowed")
    defect = next((kind for kind in Defect if call.has_fault(kind.value)), None)
    return RentOrder(
        offer_id=ask_id,
        image=image or "template",
        disk_gb=disk,
        price=price,
        label=label,
        pull_refusal=refusal(call.site.private_images, image or "", _login(call)),
        env=_parse_env(body.get("env")),
        onstart=onstart,
        args=tuple(args),
        runtype=_text(body, "runtype", 256),
        # Interruptible orders make a stopped contract when they lose, unless told otherwise.
        cancel_unavail=bool(body.get("cancel_unavail", price is None)) and not call.has_fault("success_false"),
        start_stopped=body.get("target_state") == "stopped",
        must_lose=call.has_fault("success_false"),
        defect=defect,
    )


def _login(call: Call) -> Login | None:
    parsed = _parse_login(call.body)
    return None if "login-is-taken" in call.market.broken else parsed


def _parse_login(body: Json) -> Login | None:
    """``-u USER -p PASSWORD SERVER``, as its host hands it to the container runtime."""
    text = _text(body, "image_login", 2048)
    if text is None:
        return None
    words = shlex.split(text)
    if len(words) != 5 or words[0] != "-u" or words[2] != "-p":
        raise invalid_args("image_login must be '-u USER -p PASSWORD SERVER'")
    return Login(words[1], words[3], words[4])


def _parse_price(value: object) -> Decimal | None:
    if value is None:
        return None
    price = _decimal(value)
    if price is None or not _MIN_PRICE <= price <= _MAX_PRICE:
        raise Failure(
            HttpReply({"success": False, "error": "invalid_price", "msg": "price must be between 0.001 and 128.0"}, 400)
        )
    return price


def _parse_env(env: object) -> tuple[tuple[str, str], ...]:
    if env is None:
        return ()
    if not isinstance(env, dict):
        raise invalid_args("invalid env type: env must be a dict")
    pairs = [(str(key), str(value)) for key, value in env.items()]
    for key, value in pairs:
        if not key or "=" in key or "\0" in key + value:
            raise invalid_args("invalid env key")
        if len(value) > _MAX_ENV_VALUE:
            raise invalid_args(f"env values are limited to {_MAX_ENV_VALUE} characters")
    if len(json.dumps(env)) > _MAX_ENV:
        raise invalid_args(f"env is limited to {_MAX_ENV} characters")
    return tuple(pairs)


def _text(body: Json, name: str, limit: int) -> str | None:
    value = body.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > limit:
        raise invalid_args(f"{name} must be a string of at most {limit} characters")
    return value


def _decimal(value: object) -> Decimal | None:
    """A finite number, also one written as a string; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
