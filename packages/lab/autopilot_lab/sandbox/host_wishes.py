"""What a control API is asked of hosts: how they boot, and what is stated of them."""

from __future__ import annotations

from autopilot_lab.sandbox.host_traits import Boot, HostTraits, Truth, draw_pool
from autopilot_lab.sandbox.operations import BadRequest, Json, amount

_STATED = ("driver", "cuda", "arch")


def parse_traits(wish: Json) -> tuple[Boot | None, dict[str, str]]:
    """How the host boots (None: as before), and what is stated otherwise: its ``driver``, ``cuda``, ``arch``."""
    boots = wish.get("boots")
    return None if boots is None else _parse_boot(boots), {
        name: str(wish[name]) for name in _STATED if wish.get(name) is not None
    }


def parse_share(wish: Json) -> float:
    """``share`` of the hosts that never boot."""
    share = float(amount(wish, "share"))
    if share > 1:
        raise BadRequest(f"share lies between 0 and 1, not at {share:g}")
    return share


def parse_hosts(wish: Json, name: str) -> tuple[HostTraits, ...]:
    """Those of a pool from now on: all boot as ``boots`` says, or a ``share`` of them never does."""
    if "boots" in wish:
        return (HostTraits(truth=Truth(_parse_boot(wish["boots"]))),)
    return draw_pool(name, parse_share(wish))


def _parse_boot(word: object) -> Boot:
    try:
        return Boot(str(word))
    except ValueError:
        raise BadRequest(f"boots must be one of {', '.join(Boot)}, not {word!r}") from None
