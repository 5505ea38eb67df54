"""Marked at first sight, destroyed later, and nothing at all while the ledger is in doubt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from autopilot.domain.instance import Instance
from autopilot.domain.labels import is_ours, label_for
from autopilot.domain.lease import Lease, LeaseState
from autopilot.engine.reconcile import find_unaccounted
from autopilot.engine.sweep import MARK_AGE, QUARANTINE_LASTS, Sweep
from tests.builders import START, a_lease, an_instance, at

TOMBSTONE = a_lease(state=LeaseState.GONE)
AGE_S = MARK_AGE.total_seconds()


def orphan(number: int) -> tuple[Instance, Lease | None]:
    return an_instance(instance_id=str(number)), None


def known(number: int) -> tuple[Instance, Lease | None]:
    return an_instance(instance_id=str(number)), TOMBSTONE


MANY = [orphan(1), orphan(2), orphan(3)]


def test_never_at_first_sight() -> None:
    sweep = Sweep()
    assert sweep.look(10, [orphan(1), known(2)], START) == []


def test_destroyed_once_the_mark_is_old_enough() -> None:
    sweep = Sweep()
    sweep.look(10, [orphan(1)], at(0))
    assert sweep.look(10, [orphan(1)], at(AGE_S - 1)) == []
    assert sweep.look(10, [orphan(1), orphan(2)], at(AGE_S)) == [orphan(1)]
    assert sweep.look(10, [orphan(1), orphan(2)], at(2 * AGE_S)) == [orphan(1), orphan(2)]


def test_a_mark_does_not_outlive_its_instance() -> None:
    sweep = Sweep()
    sweep.look(10, [orphan(1)], at(0))
    sweep.look(10, [], at(15))
    assert sweep.look(10, [orphan(1)], at(60)) == [], "seen again, marked again"
    assert sweep.look(10, [orphan(1)], at(60 + AGE_S)) == [orphan(1)]


@pytest.mark.parametrize(
    ("ours", "found", "quarantined"),
    [
        (6, [orphan(1), orphan(2), orphan(3)], False),  # half
        (5, [orphan(1), orphan(2), orphan(3)], True),  # most
        (1, [orphan(1)], True),  # the only one: no ledger of ours forgets a label
        (2, [orphan(1)], False),
        (3, [known(1), known(2), known(3)], False),  # the ledger knows them all
        (0, [], False),
    ],
)
def test_if_most_are_unknown_the_ledger_is_in_doubt(
    ours: int, found: list[tuple[Instance, Lease | None]], quarantined: bool
) -> None:
    sweep = Sweep()
    sweep.look(ours, found, at(0))
    swept = sweep.look(ours, found, at(AGE_S))
    assert sweep.is_quarantined(at(AGE_S)) == quarantined
    assert swept == ([] if quarantined else found)


def test_quarantine_holds_back_known_instances_too() -> None:
    sweep = Sweep()
    found = [*MANY, known(4)]
    sweep.look(4, found, at(0))
    assert sweep.look(4, found, at(AGE_S)) == []


def test_quarantine_ends_by_time() -> None:
    sweep = Sweep()
    sweep.look(3, MANY, START)
    last = START + QUARANTINE_LASTS
    assert sweep.look(3, MANY, last - timedelta(seconds=1)) == []
    assert sweep.look(3, MANY, last) == MANY
    assert not sweep.is_quarantined(last)


def test_quarantine_ends_when_it_clears_up_and_can_start_again() -> None:
    sweep = Sweep()
    sweep.look(3, MANY, START)
    sweep.look(9, MANY, at(60))
    assert not sweep.is_quarantined(at(60))
    later = START + QUARANTINE_LASTS
    assert sweep.look(3, MANY, later) == []
    assert sweep.is_quarantined(later)


@pytest.mark.parametrize(
    ("label", "ours"),
    [
        (label_for("install1", "lease-1"), True),
        (label_for("install2", "lease-1"), False),
        (label_for("install11", "lease-1"), False),
        ("ap1.install1", False),
        ("AP1.install1.lease-1", False),
        ("my own machine", False),
        ("", False),
    ],
)
def test_only_labels_of_this_installation_are_ours(label: str, ours: bool) -> None:
    assert is_ours(label, "install1") == ours


def test_a_label_fits_the_strictest_market() -> None:
    assert len(label_for("k3v9x2m4", "01JD4XQ0T5N1V8Z6Y3B7C9D2EF")) <= 60


def test_a_live_lease_is_never_swept() -> None:
    sweep, lease = Sweep(), a_lease()
    for now in (0, 60, 10_000):
        found = find_unaccounted([an_instance(lease)], {lease.label: [lease]})
        assert sweep.look(1, found, at(now)) == []
