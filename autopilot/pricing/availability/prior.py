"""The belief about a spot market before anything was seen of it: the prior that the product ships.

Fitted by ``autopilot_lab.backtest.fit`` to public records of spot availability: AWS V100 in 9 zones over 45 days
of 2023 and GCP H100 in 13 zones over 15 days of 2025 (SkyNomad artifact, Apache-2.0). Two kinds of market,
each with a short and a long phase of either sign. Rows were rounded to three digits and are scaled to sum to 1.
"""

from __future__ import annotations

from autopilot.domain.outlook import PhaseModel

_ON = (True, True, True, True, False, False, False, False)
_MOVES = (
    (0.521, 0.00168, 1.76e-07, 4.38e-09, 0.46, 0.0173, 1.05e-06, 0.000317),
    (0.000115, 0.964, 0.0101, 7.15e-07, 0.000948, 0.000109, 0.0167, 0.00765),
    (9.18e-06, 0.0358, 0.626, 0.0012, 6.27e-06, 0.00841, 0.171, 0.157),
    (2.73e-06, 8.15e-07, 9.45e-05, 0.996, 0.000297, 3.17e-12, 0.00392, 0.000166),
    (0.581, 0.0387, 4.83e-05, 1.66e-08, 0.376, 0.00209, 1.52e-07, 0.00232),
    (0.00154, 1.49e-05, 0.00533, 0.000487, 0.000103, 0.992, 6.68e-05, 6.16e-05),
    (7.32e-06, 0.157, 0.287, 0.0463, 0.000243, 3.83e-09, 0.506, 0.00431),
    (7.6e-07, 0.0119, 0.0455, 0.00104, 2.06e-06, 0.000779, 0.00131, 0.939),
)

PHASES = PhaseModel(on=_ON, moves=tuple(tuple(value / sum(row) for value in row) for row in _MOVES))
