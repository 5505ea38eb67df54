"""Prices by formula: first bids, re-bids, and the cost to finish on an offer."""
