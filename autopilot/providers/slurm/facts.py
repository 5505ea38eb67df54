"""What the plug-in of a Slurm cluster declares about itself."""

from __future__ import annotations

from autopilot.markets.facts import MarketFacts

FACTS = MarketFacts(display_name="Slurm", is_own=True, order=1)
