"""Bids against simple rules: every column of every bid suite at hand, played as live; resumes from a kept file.

A column is a market, what is asked of its jobs, and a deadline. Markets like the field are made up by seeds; AWS's
records of 2015 and the older made-up markets are a second table. Each compares the policy with simple rules, as they
are and with the same promise kept, by dollars for an hour of work, with intervals by resampling stretches of market.
Starts that numbers are chosen on are others than those that are scored; a start that ``submit`` would refuse is not
played.
"""
