"""autopilot: a spot-bidding autopilot for GPU marketplaces."""

__version__ = "0.1.0"
"""The one place that states it: the build reads it here."""
