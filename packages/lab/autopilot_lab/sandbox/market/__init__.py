"""The market model: machines, auctions, contracts and meters. Pure but for the injected container runtime.

Nothing here reads a clock: ``Market.advance_to(now)`` processes what is due, in order, at its exact instant.
"""
