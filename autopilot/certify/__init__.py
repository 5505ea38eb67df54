"""Certification: what is assumed of a market, the steps that prove it with one small machine, and what was found."""
