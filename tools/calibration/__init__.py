"""Whether plans can be believed: jobs are planned, then played as live, and what was said is held against what came.

    python -m tools.calibration --shard 1/8     plan and play a share; what the kept file has already is not done again
    python -m tools.calibration --report        the tables, and the picture of the docs

A job is played without a budget and with one. The first tells of the cost interval, both of the odds.
"""
