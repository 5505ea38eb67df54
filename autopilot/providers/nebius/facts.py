"""What Nebius's plug-in declares about itself."""

from __future__ import annotations

from decimal import Decimal

from autopilot.certify.claim import CertifyFacts
from autopilot.markets.facts import MarketFacts
from autopilot.providers.nebius.claims import CLAIMS

FACTS = MarketFacts(
    display_name="Nebius",
    key_option="--nebius-key-file",
    key_help="The same for Nebius: the credentials of a service account, as the console hands them out.",
    domains=("nebius.cloud",),
    certify=CertifyFacts(
        CLAIMS,
        budget="$3.00",  # there are no small machines
        max_hourly=Decimal("4.00"),
        gpus=("RTX PRO 6000 S", "H100 SXM", "H200"),
    ),
    order=4,
)
