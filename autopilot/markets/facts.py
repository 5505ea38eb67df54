"""What a market's plug-in declares about itself: known without its SDK, without a key and without asking the market."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autopilot.certify.claim import CertifyFacts

UNORDERED = 100
_OPTION = re.compile(r"--[a-z][a-z0-9-]*-key-file")
UNCERTIFIED = CertifyFacts()


@dataclass(frozen=True, slots=True)
class MarketFacts:
    """All that the product asks of a market by its name. What it can do, its provider's ``capabilities`` say."""

    display_name: str
    """For people, as the market writes itself."""
    key_option: str = ""
    """The option of ``autopilot init`` that takes its key from a file, like ``--rack-key-file``; empty: it needs no
    key."""
    key_help: str = ""
    """What that option's help says; empty: "The same for" the market."""
    domains: tuple[str, ...] = ()
    """Where it takes real money, with all hosts below them. Any other address in ``base_url`` is an emulator's."""
    can_be_dialled: bool = False
    """Its machines take SSH logins with a key that its API attaches: storage can lie with a daemon that no machine
    reaches. Whether its SSH servers forward is another matter, and a claim where it is not known."""
    is_own: bool = False
    """Its machines are the user's own: nothing is bought there, so no certificate is asked for."""
    certify: CertifyFacts = UNCERTIFIED
    order: int = UNORDERED
    """Its place in lists and questions about all markets: the lowest first, then by name."""

    def __post_init__(self) -> None:
        if self.key_option and _OPTION.fullmatch(self.key_option) is None:
            raise ValueError(f"key_option must be like --rack-key-file, and is {self.key_option}")
