"""What vast.ai's plug-in declares about itself."""

from __future__ import annotations

from autopilot.certify.claim import CertifyFacts
from autopilot.markets.facts import MarketFacts
from autopilot.providers.vastai.claims import CLAIMS

FACTS = MarketFacts(
    display_name="vast.ai",
    key_option="--vast-key-file",
    key_help="Take the vast.ai key from this file and ask nothing.",
    domains=("vast.ai",),
    can_be_dialled=True,
    certify=CertifyFacts(CLAIMS, bills_traffic=True, address_variables=("PUBLIC_IPADDR", "VAST_TCP_PORT")),
    order=1,
)
