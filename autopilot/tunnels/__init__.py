"""The process that dials rented machines, so that they reach the store of a daemon behind NAT."""
