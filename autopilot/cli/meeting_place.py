"""The questions of ``autopilot init`` about money, and about where rented machines meet the daemon."""

from __future__ import annotations

import getpass
from pathlib import Path

from autopilot.config.keys import KEY_FORMS, read_private
from autopilot.config.meeting import SERVICES, Service, fill
from autopilot.domain.errors import UserError
from autopilot.domain.money import usd
from autopilot.markets.installed import every_market

LISTEN = "127.0.0.1:8787"
"""A fixed port, so that a proxy can lead there."""

Values = dict[tuple[str, str], str | bool]
"""(section, key) → what to set."""


UNCERTIFIED = "$5"
_UNCERTIFIED = """
What a market does with your money is proved by autopilot certify, in about an hour. Until then so much may be spent on
each market, by all jobs together, on one machine at a time until the first job there has proved that it ends."""


def ask() -> tuple[Values, str | None]:
    """What to set, and the bucket's key; what is answered by Enter stays as it is. Raises ``UserError``."""
    values: Values = {}
    for key, default in (("day", "$50"), ("month", "$500")):
        answer = input(f"Maximum spend in a {key} [{default}]: ").strip()
        if answer:
            values["limits", key] = f"${usd(answer)}"
    print(_UNCERTIFIED)
    answer = input(f"Maximum spend there without it, 0 for none [{UNCERTIFIED}]: ").strip() or UNCERTIFIED
    if usd(answer):
        values["limits", "uncertified"] = f"${usd(answer)}"
    dialled = " and ".join(facts.display_name for facts in every_market().values() if facts.can_be_dialled)
    print(
        "\nRented machines and your daemon share storage: a bucket, an https address of yours, or this machine by SSH:"
    )
    for number, each in enumerate(SERVICES, start=1):
        print(f"  {number}  {each.title}")
    print(f"  {len(SERVICES) + 1}  an https address that leads to this machine")
    print(f"  {len(SERVICES) + 2}  this machine, which dials those of {dialled} by SSH: checkpoints cross your line")
    answer = input("Which one [Enter: later]: ").strip()
    if not answer:
        print(f"machines of {dialled} are dialled by SSH; for others: autopilot init --bucket … or --public-url …")
        return values, None
    if answer == str(len(SERVICES) + 1):
        values["blobs", "public_url"] = input("Its address, like https://mailbox.example.org: ").strip()
        values["blobs", "listen"] = input(f"Where the listener waits for it [{LISTEN}]: ").strip() or LISTEN
        return values, None
    if answer == str(len(SERVICES) + 2):
        mbps = input("Mbit/s that your line sends [20]: ").strip()
        return (values | {("blobs", "home_mbps"): mbps} if mbps else values), None
    service = next((each for n, each in enumerate(SERVICES, start=1) if answer in (str(n), each.name)), None)
    if service is None:
        raise UserError(f"{answer!r} is none of them", hint="autopilot init --force asks again")
    more, key = _ask_bucket(service)
    return values | more, key


def _ask_bucket(service: Service) -> tuple[Values, str]:
    known = {}
    for name in service.asks:
        known[name] = input(f"{service.title}, {name}: ").strip()
        if not known[name]:
            raise UserError(f"the {name} is missing", hint="autopilot init --force asks again")
    print(f"\nThe key needs no more than this: {fill(service.rights, known)}\n")
    values: Values = {
        ("blobs", key): fill(text, known)
        for key, text in (("url", service.url), ("endpoint", service.endpoint), ("region", service.region))
        if text
    }
    if service.name == "gs":
        return values, read_private(Path(input("File of its JSON key (mode 600): ").strip()).expanduser())
    return values, getpass.getpass(f"{KEY_FORMS['s3']} (not shown): ").strip()
