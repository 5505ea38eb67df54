"""Labels as the names of machines, disks and policies, and back."""

from __future__ import annotations

import pytest

from autopilot.domain.labels import label_for
from autopilot.providers.nebius import names

LABEL = label_for("contract", "01KDVDQFARKQT2MAFVEEP6DN4B")


def test_a_label_of_ours_is_made_of_small_letters_and_dashes() -> None:
    assert names.name_of(LABEL) == "ap1-contract-01kdvdqfarkqt2mafveep6dn4b"


@pytest.mark.parametrize("label", [LABEL, "somebody's own", "ap1", "ap1.x", ""])
def test_a_name_tells_its_label(label: str) -> None:
    assert names.label_of(names.name_of(label)) == label


def test_each_policy_of_a_machine_tells_whose_it_is() -> None:
    name = names.name_of(LABEL)
    second = names.policy_name(name, {name})
    third = names.policy_name(name, {name, second})
    assert (second, third) == (f"{name}-2", f"{name}-3")
    assert {names.label_of(each) for each in (name, second, third)} == {LABEL}
    assert all(names.is_of(each, name) for each in (name, second, third))
    assert not names.is_of(f"{name}x", name)
    assert not names.is_of(name, "ap1-contract-01")
