"""Prices where spot machines are auctioned: what recorded floors say of the next, and tables that price each bid."""
