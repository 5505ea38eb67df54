"""Mithril's market: bids for virtual machines in a second-price auction that is held every two minutes."""
