"""One tick: observe → evolve → decide → guard → intent → execute → record. See ``engine.Engine``.

The engine knows ports, policy and domain only; markets, stores and clocks are handed to it.
"""
