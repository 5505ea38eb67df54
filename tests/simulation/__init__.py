"""Seeded runs of the whole in virtual time, with faults and kills; what must hold is read from the market's own books.

loop, processes    virtual time, a ready queue in the seed's order, processes that can be killed and frozen
world              machines, markets, object store, network: the truth
daemon             the product: engine, policy, adapters, store; only transports and clock are the world's
faults             the catalogue; each seed switches on some of its rows
invariants         what must always hold, and what must hold in the end
run, campaign      one seed; many seeds on all cores
"""
