"""The paper market: a real market's offers and prices, simulated instances. Nothing is ever rented.

It reads the market that it wraps (offers, account) and sends it no change. Instances live here, on the clock: they load
for a set-up time, run while their bid holds against the floor that the offers show, pause when it does not, and are
metered as the real ones are. A simulated agent answers their orders, so that the daemon decides as it would in earnest.
"""
