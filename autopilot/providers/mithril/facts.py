"""What Mithril's plug-in declares about itself."""

from __future__ import annotations

from decimal import Decimal

from autopilot.certify.claim import CertifyFacts
from autopilot.markets.facts import MarketFacts
from autopilot.providers.mithril.claims import CLAIMS

FACTS = MarketFacts(
    display_name="Mithril",
    key_option="--mithril-key-file",
    domains=("mithril.ai",),
    certify=CertifyFacts(
        CLAIMS,
        budget="$3.00",  # there are no small machines
        max_hourly=Decimal("3.00"),
        gpus=("A100 SXM4", "H100 SXM", "A100 PCIE"),
    ),
    order=3,
)
