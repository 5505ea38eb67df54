"""What RunPod's plug-in declares about itself."""

from __future__ import annotations

from autopilot.certify.claim import CertifyFacts
from autopilot.markets.facts import MarketFacts
from autopilot.providers.runpod.claims import CLAIMS

FACTS = MarketFacts(
    display_name="RunPod",
    key_option="--runpod-key-file",
    domains=("runpod.io", "runpod.ai", "runpod.net"),
    certify=CertifyFacts(CLAIMS, address_variables=("RUNPOD_PUBLIC_IP", "RUNPOD_TCP_PORT")),
    order=2,
)
