"""What a machine is expected to cost to the end of a job: pure functions that ``policy`` weighs.

``rule`` by formula, where nothing was recorded · ``availability`` by tables of costs to go over spot that comes and
goes · ``auction`` by simulated bidders on recorded floors. Beside them what all three use: ``pressure`` (how pressing
time is), ``speed``, ``traffic``, ``hazard``.
"""
