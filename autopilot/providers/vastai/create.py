"""What a create asks for, and whether what was rented is that."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from autopilot.domain.instance import Instance
from autopilot.domain.offer import CapacityType
from autopilot.domain.registry import RegistryLogin
from autopilot.ports.provider import CreateRequest
from autopilot.providers import values
from autopilot.providers.vastai.config import VastaiSettings

SMALLEST_DISK_GB = 8
LONGEST_ONSTART = 4096
LONGEST_ENV_VALUE = 256
LONGEST_ENV = 32_768
LONGEST_LABEL = 60
STORED_PLACES = Decimal("0.0001")
"""The market keeps prices to four decimals."""


def _faults(request: CreateRequest) -> list[str]:
    env_length = sum(len(name) + len(value) for name, value in request.env.items())
    faults = {
        f"not an offer id of this market: {request.offer_id!r}": values.identifier(request.offer_id) is None,
        f"a label has 1 to {LONGEST_LABEL} characters": not 0 < len(request.label) <= LONGEST_LABEL,
        f"the smallest disk is {SMALLEST_DISK_GB} GB": request.disk_gb < SMALLEST_DISK_GB,
        f"the start script has more than {LONGEST_ONSTART} characters": len(request.onstart) > LONGEST_ONSTART,
        f"an environment value has more than {LONGEST_ENV_VALUE} characters": any(
            len(value) > LONGEST_ENV_VALUE for value in request.env.values()
        ),
        f"the environment has more than {LONGEST_ENV} characters": env_length > LONGEST_ENV,
    }
    return [fault for fault, present in faults.items() if present]


def _environment(request: CreateRequest) -> dict[str, str]:
    """Variables, and ports as options of the container runtime, which this market wants among them."""
    port = request.public_port
    return dict(request.env) if port is None else {**request.env, f"-p {port}:{port}": "1"}


def _image_login(login: RegistryLogin) -> str:
    """As the host's container runtime takes it: words without spaces or quotes."""
    return f"-u {login.user} -p {login.password} {login.server}"


def body(request: CreateRequest, bid: Decimal | None, settings: VastaiSettings) -> dict[str, Any]:
    """``bid`` None rents on demand, so it is None only when on demand is what was asked for.

    Raises ``ValueError`` for what the market would turn down.
    """
    from autopilot.providers.vastai.sdk import create_body

    if faults := _faults(request):
        raise ValueError("; ".join(faults))
    return create_body(
        image=request.image,
        disk=values.plain(request.disk_gb),
        env=_environment(request),
        price=None if bid is None else float(bid),
        label=request.label,
        onstart_cmd=request.onstart,
        runtype=settings.runtype,
        login=None if request.login is None else _image_login(request.login),
        # A bid that cannot start is then refused outright instead of leaving a stopped instance behind.
        cancel_unavail=True,
    )


def difference(rented: Instance, request: CreateRequest, bid: Decimal | None) -> str | None:
    """How the instance differs from what was asked for, or None when it does not.

    A bid must stand exactly as sent; an on-demand price may only be lower than the one that was seen.
    """
    if rented.capacity_type is not request.capacity_type:
        return f"asked for {request.capacity_type}, rented {rented.capacity_type}"
    billed = rented.bid.quantize(STORED_PLACES, ROUND_HALF_EVEN)
    if request.capacity_type is CapacityType.SPOT:
        wrong = bid is None or billed != bid.quantize(STORED_PLACES, ROUND_HALF_EVEN)
    else:
        wrong = billed > request.bid.quantize(STORED_PLACES, ROUND_HALF_EVEN)
    return f"asked for ${request.bid}/h, rented at ${rented.bid}/h" if wrong else None
