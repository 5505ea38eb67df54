"""Nebius's market: preemptible virtual machines under a cap on a price that moves every quarter of an hour."""
