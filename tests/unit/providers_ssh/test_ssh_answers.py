"""What a machine of one's own answers, and what is made of it: anything at all is a record of its type or no answer."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.instance import InstanceStatus
from autopilot.domain.offer import OfferQuery
from autopilot.providers.ssh import mapping
from autopilot.providers.ssh.config import MachineSettings
from autopilot.providers.ssh.shipped import program
from autopilot.providers.ssh.shipped.program import ANSWER
from autopilot.providers.ssh.wire import MOST_TEXT, SeenLease, SeenMachine, clean, read_answer, read_seen
from autopilot.providers.values import Unreadable

LEASE = {"name": "ap1.x.1", "label": "ap1.x.1", "state": "running", "slot": 0, "gpu": "RTX 4090", "num_gpus": 1}
GPU = {
    "index": "0",
    "uuid": "GPU-1",
    "name": "NVIDIA GeForce RTX 4090",
    "memory.total": "24564",
    "memory.used": "3",
    "driver_version": "580.95.05",
    "compute_cap": "8.9",
}
GOOD: dict[str, Any] = {
    "leases": [{**LEASE, "ends_at": None}],
    "taken_back": False,
    "arch": "x86_64",
    "cpus": 16,
    "ram_mb": 64_000,
    "disk_mb": 500_000,
    "gpus": [GPU],
}
QUERY = OfferQuery((("RTX 4090", 1), ("RTX 4090", 2)), Decimal(20), Decimal(40), False, False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def said(answer: object) -> str:
    return f"welcome\n\n{ANSWER}{json.dumps(answer)}\nbye\n"


def test_a_good_answer_is_read_among_what_a_login_prints() -> None:
    seen = read_seen(read_answer(said(GOOD)))
    assert (seen.cpus, seen.ram_gb, seen.disk_gb, seen.gpu_fault) == (16, Decimal(64), Decimal(500), "")
    assert [each.label for each in seen.leases] == ["ap1.x.1"]
    assert seen.gpus is not None
    assert (seen.gpus[0].driver, seen.gpus[0].compute_cap) == ("580.95.05", Decimal("8.9"))


@pytest.mark.parametrize("text", ["", "welcome", said(1), said([]), ANSWER + "{", said(GOOD) + said(GOOD)])
def test_what_is_no_answer_is_none(text: str) -> None:
    with pytest.raises(Unreadable):
        read_answer(text)


@given(st.sampled_from(sorted(GOOD)), JSON)
def test_an_answer_with_anything_in_it_is_read_or_refused(key: str, value: object) -> None:
    try:
        seen = read_seen(read_answer(said({**GOOD, key: value})))
    except Unreadable:
        return
    assert_sane(seen)


@given(st.sampled_from(sorted({*LEASE, "ends_at"})), JSON)
def test_a_lease_with_anything_in_it_is_read_or_refused(key: str, value: object) -> None:
    try:
        seen = read_seen(read_answer(said({**GOOD, "leases": [{**LEASE, "ends_at": None, key: value}]})))
    except Unreadable:
        return
    assert_sane(seen)


@given(st.sampled_from(sorted(GPU)), JSON)
def test_a_gpu_with_anything_in_it_is_read_or_refused(key: str, value: object) -> None:
    try:
        seen = read_seen(read_answer(said({**GOOD, "gpus": [{**GPU, key: value}]})))
    except Unreadable:
        return
    assert_sane(seen)


def assert_sane(seen: SeenMachine) -> None:
    settings = MachineSettings(host="box")
    for offer in mapping.offers("box", settings, seen, QUERY, None):
        assert offer.disk_gb >= 0
        assert offer.vram_gb >= QUERY.min_vram_gb
    for lease in seen.leases:
        shown = mapping.instance("box", settings, lease)
        assert shown.bid == 0
        assert len(shown.label) <= MOST_TEXT
        assert shown.label.isprintable() or not shown.label


def test_a_lease_that_is_named_twice_is_no_list() -> None:
    with pytest.raises(Unreadable):
        read_seen({**GOOD, "leases": GOOD["leases"] * 2})


def test_more_leases_than_there_may_be_are_no_list() -> None:
    with pytest.raises(Unreadable):
        read_seen({**GOOD, "leases": [{**LEASE, "name": f"l{number}"} for number in range(65)]})


def seen(*slots: int, gpus: int = 2) -> SeenMachine:
    rows = [{**GPU, "index": str(index)} for index in range(gpus)]
    leases = [{**LEASE, "name": f"l{slot}", "slot": slot} for slot in slots]
    return read_seen({**GOOD, "gpus": rows, "leases": leases})


@pytest.mark.parametrize(
    ("jobs", "taken", "found"),
    [
        (1, (), {("box/0", 1), ("box/0", 2)}),
        (2, (), {("box/0", 1), ("box/1", 1)}),
        (2, (0,), {("box/1", 1)}),
        (2, (0, 1), set()),
        (3, (), set()),
    ],
)
def test_each_free_slot_is_offered_with_its_share_of_the_gpus(
    jobs: int, taken: tuple[int, ...], found: set[tuple[str, int]]
) -> None:
    offers = mapping.offers("box", MachineSettings(host="box", jobs=jobs), seen(*taken), QUERY, None)
    assert {(offer.machine_id, offer.num_gpus) for offer in offers} == found


def test_slots_share_no_gpu() -> None:
    settings = MachineSettings(host="box", jobs=2)
    kit = mapping.kit_of(settings, seen(gpus=4))
    assert kit is not None
    assert [mapping.devices_of(kit, settings, slot, 2) for slot in (0, 1)] == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("state", "status", "is_meant_to_run"),
    [
        ("running", InstanceStatus.RUNNING, True),
        ("starting", InstanceStatus.PROVISIONING, True),
        ("stopped", InstanceStatus.STOPPED, False),
        ("taken", InstanceStatus.STOPPED, True),
        ("hours", InstanceStatus.STOPPED, True),
        ("leaving", InstanceStatus.STOPPED, False),
        ("dancing", InstanceStatus.RUNNING, True),
    ],
)
def test_each_state_is_one_of_a_machine(state: str, status: InstanceStatus, is_meant_to_run: bool) -> None:
    lease = SeenLease("l", "ap1.x.l", state, 0, "RTX 4090", 1, datetime(2026, 1, 1, tzinfo=UTC))
    shown = mapping.instance("box", MachineSettings(host="box"), lease)
    assert (shown.status, shown.intended_running) == (status, is_meant_to_run)
    assert mapping.parts_of_id(shown.instance_id) == ("box", "l")


def test_a_label_makes_a_directory_s_name() -> None:
    assert mapping.directory_of("ap1.abc.01LEASE") == "ap1.abc.01LEASE"
    for label in ("../../etc", "somebody's own", "", ".hidden", "a/b", "x" * 500, "ünïcode"):
        name = mapping.directory_of(label)
        assert replace(LEASE_SEEN, name=name).name == name
        assert "/" not in name
        assert not name.startswith(".")
        assert len(name) <= 111


LEASE_SEEN = SeenLease("l", "l", "running", 0, "", 0, None)


@pytest.mark.parametrize("identifier", ["", "box", "box/0", "box/0/1/2", "Box/0/1", "box/-1/1", "box/0/1\n", "box/٣/1"])
def test_what_is_no_offer_of_ours_is_refused(identifier: str) -> None:
    with pytest.raises(ValueError, match="not an offer"):
        mapping.parts_of_offer(identifier)


def test_words_of_a_machine_are_one_short_line() -> None:
    assert clean("a\nb\x1b[31m" + "c" * 1000) == "ab[31m" + "c" * (MOST_TEXT - 8)


@pytest.mark.parametrize("record", ["", "{", "[]", "{}", "directory"])
def test_a_lease_whose_record_cannot_be_read_is_not_taken_for_none(tmp_path: Path, record: str) -> None:
    place = program.Place(str(tmp_path))
    lease = tmp_path / "leases/ap1.x"
    lease.mkdir(parents=True)
    assert place.names() == [], "without a record it is somebody else's"
    path = lease / "lease.json"
    if record == "directory":
        path.mkdir()
    else:
        path.write_text(record)
    with pytest.raises((OSError, ValueError)):
        program.look(place, {})
