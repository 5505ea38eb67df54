"""The decision core: pure functions from (job, market, time, parameters) to actions. No I/O, no clock, no luck.

Room by room: ``decide`` composes · ``deadline`` says how pressing time is · ``budget`` what may still be spent ·
``eligibility`` which offers will do · ``bidding`` at what price · ``cost`` what each would cost to the end ·
``migration`` the steps of a planned move · ``paused`` wait, re-bid or leave · ``guard`` the second reading.
"""
