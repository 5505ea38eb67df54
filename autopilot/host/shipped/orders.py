"""Reading what the daemon orders of this program: all that it goes by is there and of its type, or there are none."""

from __future__ import annotations

import json
import re
from typing import Any

_CONTAINER = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}", re.ASCII)


def parse_orders(data: bytes) -> dict[str, Any] | None:
    """``seq``, ``permit_ttl_s``, ``next_orders_url``, ``headers`` of a PUT, and ``host``: the plan."""
    try:
        orders = json.loads(data)
        host, headers = orders["host"], orders["put_urls"]["headers"]
        texts = [host[name] for name in ("container", "image", "start", "report_url", "login_url")]
        texts += [orders["next_orders_url"], *headers, *headers.values(), *host["env"], *host["env"].values()]
        numbers = [orders["seq"], orders["permit_ttl_s"], host["num_gpus"], host["boot_s"]]
        whole = orders["v"] == 1 and type(host["needs_login"]) is bool and _CONTAINER.fullmatch(host["container"])
        whole = whole and all(type(number) is int and number >= 0 for number in numbers)
        if not (whole and all(isinstance(text, str) for text in texts)):
            return None
        kept = {name: orders[name] for name in ("seq", "permit_ttl_s", "next_orders_url")}
        return {**kept, "headers": headers, "host": host}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def parse_login(data: bytes) -> dict[str, str] | None:
    """``username``, ``password``, ``serveraddress``: what a registry is asked with."""
    try:
        login = json.loads(data)
        return {name: str(login[name]) for name in ("username", "password", "serveraddress")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
