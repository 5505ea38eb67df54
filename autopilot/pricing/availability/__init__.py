"""Prices where spot comes and goes: beliefs about the market, and tables of costs to go under them."""
