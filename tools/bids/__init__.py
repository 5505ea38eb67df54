"""Bids against simple rules: every column of every bid suite at hand, played as live; resumes from a kept file.

A column is a market, what is paid, and a deadline: recorded suites with starts in the second half of their record,
and markets made up by seeds that no number was chosen on. Each compares the policy with the best simple rule of that
very column, with an interval by resampling stretches of market.
"""
