"""The agent: the program that autopilot puts on a rented machine. Usage: agent.pyz ORDERS_URL

It reads its orders from a signed URL, restores the newest complete checkpoint, runs the job, uploads checkpoints,
logs and heartbeats, reports the exit, and destroys its own machine when its permit ends unrenewed. It may be killed
and restarted at any moment.

Everything in this directory is shipped, and nothing else: Python 3.8 or newer, the standard library, no other module of
the project. ``machine`` decides and does nothing; the others do and decide nothing. Times are market seconds (real
seconds x AUTOPILOT_CLOCK_SPEED) on a clock that no one can set and that runs on through suspension. Only socket
timeouts are real seconds.
"""
