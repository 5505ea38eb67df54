"""Tells when a market's answers differ from what its adapter was written for."""
