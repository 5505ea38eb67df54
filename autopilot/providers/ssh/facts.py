"""What the plug-in of one's own machines declares about itself."""

from __future__ import annotations

from autopilot.markets.facts import MarketFacts

FACTS = MarketFacts(display_name="SSH machines", is_own=True, order=0)
