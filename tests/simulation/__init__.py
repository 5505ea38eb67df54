"""Seeded runs of the whole in virtual time, with faults and kills; what must hold is read from the market's own books.

Each folder imports only those above it in this list; ``make lint`` checks that.

virtual    virtual time, a ready queue in the seed's order, processes that can be killed and frozen
ground     what is true: faults, books, machines, scenarios, the committed ledger, the daemon's life
markets    hosts, prices and machines of two markets, their wires, and the network in between
product    engine, policy, adapters, store and agent; only transports, object store and clock are simulated
checks     what must always hold, and what must hold in the end
runs       the world put together, what befalls it, one seed from its beginning to its end, planted bugs
drivers    many seeds on all cores, kills at every step, the search for planted bugs, regressions
"""
