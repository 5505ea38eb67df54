"""The decision core: pure functions from (job, market, time, parameters) to actions. No I/O, no clock, no randomness.

Module by module: ``situation`` is what a decision looks at · ``decide`` composes · ``options`` are the choices,
priced by ``pricing`` · ``budget`` says what may still be spent · ``eligibility`` which offers will do · ``auctioned``
decides where machines are auctioned · ``migration`` takes the steps of a planned move · ``paused`` waits, re-bids or
leaves · ``guard`` is the second reading.
"""
