"""What a stranger's machine writes is parsed to exactly the known shapes or to None, and never raises."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.agent_state import AgentState
from autopilot.domain.arrival import Arrival, ArrivalGpu, Rented, find_lacks, find_warnings
from autopilot.domain.readings import Gpu, Readings
from autopilot.mailbox.reading import parse_exit, parse_heartbeat, parse_manifest
from autopilot.mailbox.report_shapes import ExitRecord, Heartbeat, Manifest, Part, SshLogin
from autopilot.mailbox.wire import MAX_OBJECT_BYTES, MAX_TEXT
from autopilot.ports.blobs import check_key
from autopilot.words.arrival import tell_finding

PARSERS = (parse_heartbeat, parse_exit, parse_manifest)
HEARTBEAT = Heartbeat(boot=1, seq=2, run_epoch=3, orders_seq_seen=4, state=AgentState.RUNNING, step=5, progress=0.5)
EXIT = ExitRecord(run_epoch=1, exit_code=0, reason="exited", finished_at="2026-01-01T00:00:00Z")
MANIFEST = Manifest(run_epoch=1, number=2, parts=(Part("part-0", 10, "a" * 64), Part("part-1", 3, "b" * 64)), step=7)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def test_what_we_write_we_read() -> None:
    assert parse_heartbeat(HEARTBEAT.to_json()) == HEARTBEAT
    assert parse_exit(EXIT.to_json()) == EXIT
    assert parse_manifest(MANIFEST.to_json()) == MANIFEST
    assert MANIFEST.size == 13


def test_a_manifest_may_name_parts_of_older_checkpoints() -> None:
    parts = (Part("part-3", 1, "a" * 64), Part("old/ckpt/7/part-0", 2, "b" * 64))
    manifest = parse_manifest(Manifest(run_epoch=1, number=9, parts=parts).to_json())
    assert manifest is not None
    assert manifest.part_keys("j", "l") == ("jobs/j/l/ckpt/9/part-3", "jobs/j/old/ckpt/7/part-0")


def test_part_numbers_go_on_where_uploads_were_cut_off() -> None:
    """1,750 parts, of which 1,000 were sent before: the next try uses the numbers up to 2749."""
    for number in (2749, 999_999):
        beat = replace(HEARTBEAT, next_part=number, parts_wanted=1750)
        assert parse_heartbeat(beat.to_json()) == beat
        manifest = replace(MANIFEST, parts=(Part(f"part-{number}", 10, "a" * 64),))
        assert parse_manifest(manifest.to_json()) == manifest


def test_where_the_user_may_log_in() -> None:
    for login in (
        SshLogin("203.0.113.7", 41234, "root"),
        SshLogin("2001:db8::1", 1, "job_1"),
        SshLogin(fault="no sshd"),
    ):
        beat = replace(HEARTBEAT, ssh=login)
        assert parse_heartbeat(beat.to_json()) == beat


@pytest.mark.parametrize(
    "claim",
    [
        {"host": "-oProxyCommand=rm", "port": 22, "user": "root"},
        {"host": "host.example", "port": 22, "user": "root"},
        {"host": "203.0.113.7", "port": 0, "user": "root"},
        {"host": "203.0.113.7", "port": "22", "user": "root"},
        {"host": "203.0.113.7", "port": 22, "user": "-l"},
        {"host": "203.0.113.7", "port": 22, "user": "a b"},
        {"host": "203.0.113.7", "port": 22},
        {"fault": 7},
        "root@203.0.113.7",
    ],
)
def test_a_login_that_could_be_an_option_of_ssh_is_ignored_and_the_heartbeat_counts(claim: object) -> None:
    beat = parse_heartbeat(json.dumps(json.loads(HEARTBEAT.to_json()) | {"ssh": claim}).encode())
    assert beat is not None
    assert beat.ssh == SshLogin(fault="what the machine says of its address cannot be used")
    assert replace(beat, ssh=None) == HEARTBEAT


def test_readings_of_what_could_be_read() -> None:
    """What is left out, or unknown to this version, is no reason to refuse the rest."""
    known = Readings((Gpu(0.97, 21 << 30, 24 << 30), Gpu()), 12 << 30, 3.1, 1800.0)
    beat = replace(HEARTBEAT, readings=known)
    assert parse_heartbeat(beat.to_json()) == beat
    for body, read in (
        ({}, Readings()),
        ({"gpus": [], "fans": 7}, Readings(gpus=())),
        ({"gpus": [{"busy": 1, "watts": 300}]}, Readings(gpus=(Gpu(1.0),))),
        (None, None),
    ):
        found = parse_heartbeat(json.dumps({**json.loads(HEARTBEAT.to_json()), "readings": body}).encode())
        assert found == replace(HEARTBEAT, readings=read)


ARRIVAL: dict[str, object] = {
    **{"took_s": 1.5, "gpus": [{"used": 1, "total": 2, "slowed": True, "errors": 3}], "gpu_fault": "it hangs"},
    **{"driver": "580.1", "all_reduce": "ok", "ram": 1, "shm": 2, "disk_free": 3, "disk_fault": "full"},
    **{"disk_mb_per_s": 4.5, "upload_mbps": 5.5, "download_mbps": 6, "clock_off_s": -7.5, "unreachable": ["pypi.org"]},
}


def an_arrival(body: object) -> Arrival | None:
    beat = parse_heartbeat(json.dumps({**json.loads(HEARTBEAT.to_json()), "readings": {"arrival": body}}).encode())
    assert beat is not None, "the machine works all the same"
    assert beat.readings is not None
    return beat.readings.arrival


def test_what_the_check_on_arrival_has_found() -> None:
    found = an_arrival(ARRIVAL)
    assert found is not None
    assert found.gpus == (ArrivalGpu(1, 2, True, 3),)
    assert {**asdict(found), "gpus": 0} == {**ARRIVAL, "gpus": 0, "unreachable": ("pypi.org",)}
    assert an_arrival(None) is None


@given(st.sampled_from(sorted(ARRIVAL)), anything)
def test_any_finding_is_in_range_or_the_check_says_nothing(name: str, value: object) -> None:
    found = an_arrival({**ARRIVAL, name: value})
    assert found is not None, "it is not made again"
    rented = Rented(8, Decimal(20), Decimal(64), 10)
    for lack in (*find_lacks(found, rented), *find_warnings(found, rented)):
        assert tell_finding(lack.kind, lack.has, lack.wanted).isprintable()
        assert len(str(lack.has)) <= 8 * 202


@given(anything)
def test_any_word_of_memory_is_in_range_or_no_exit(value: object) -> None:
    record = parse_exit(json.dumps({**json.loads(EXIT.to_json()), "memory": value}).encode())
    assert record is None or record.memory is None or 0 < record.memory.limit <= 2**53


@given(st.binary(max_size=300))
def test_noise_is_none(data: bytes) -> None:
    assert [parse(data) for parse in PARSERS] == [None, None, None]


@given(st.data())
def test_any_value_in_any_field_is_in_range_or_refused(data: st.DataObject) -> None:
    good = data.draw(st.sampled_from([each.to_json() for each in (HEARTBEAT, EXIT, MANIFEST)]))
    body = json.loads(good)
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(anything)
    text = json.dumps(body).encode()
    heartbeat, record, manifest = (parse(text) for parse in PARSERS)
    if heartbeat is not None:
        assert isinstance(heartbeat, Heartbeat)
        numbers = [heartbeat.boot, heartbeat.seq, heartbeat.run_epoch, heartbeat.bytes_sent, heartbeat.next_checkpoint]
        assert all(type(number) is int and 0 <= number <= 2**53 for number in numbers)
        assert heartbeat.progress is None or 0 <= heartbeat.progress <= 1
        assert len(heartbeat.error) <= MAX_TEXT
        assert heartbeat.error.isprintable()
    if record is not None:
        assert isinstance(record, ExitRecord)
        assert -255 <= record.exit_code <= 255
    if manifest is not None:
        assert isinstance(manifest, Manifest)
        assert all(check_key(key).startswith("jobs/j/") for key in manifest.part_keys("j", "l"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 2),
        ("v", True),
        ("boot", 0),
        ("boot", "1"),
        ("seq", -1),
        ("seq", 2**53 + 1),
        ("seq", 1.0),
        ("progress", 1.01),
        ("progress", float("nan")),
        ("progress", float("inf")),
        ("progress", True),
        ("saved", 1),
        ("state", "dancing"),
        ("error", 5),
        ("next_part", 1_000_000),
        ("parts_wanted", 2_001),
        ("restore_part", 2_001),
        ("readings", []),
        ("readings", "idle"),
        ("readings", {"gpus": {}}),
        ("readings", {"gpus": [None]}),
        ("readings", {"gpus": [{}] * 17}),
        ("readings", {"gpus": [{"busy": 1.01}]}),
        ("readings", {"gpus": [{"busy": float("nan")}]}),
        ("readings", {"gpus": [{"memory_used": -1}]}),
        ("readings", {"gpus": [{"memory_total": 1.5}]}),
        ("readings", {"disk_free": 2**53 + 1}),
        ("readings", {"disk_free": "much"}),
        ("readings", {"load": float("inf")}),
        ("readings", {"load": 1e6 + 1}),
        ("readings", {"load": True}),
        ("readings", {"still_s": -1}),
        ("readings", {"still_s": 1e12}),
        ("readings", {"recognised": {"form": "bar", "step": -1, "fraction": 0.5, "confidence": 0.5}}),
        ("readings", {"recognised": {"form": "bar", "step": 1, "fraction": 1.5, "confidence": 0.5}}),
        ("readings", {"recognised": {"form": "bar", "step": 1, "fraction": 0.5, "confidence": None}}),
        ("readings", {"recognised": {"form": "bar", "step": 1, "fraction": 0.5, "confidence": 0.5, "left_s": -1}}),
        ("readings", {"recognised": {"form": "bar", "step": 1, "fraction": 0.5, "confidence": 0.5, "seen": 2}}),
    ],
)
def test_a_heartbeat_out_of_range_is_refused(field: str, value: Any) -> None:
    assert parse_heartbeat(json.dumps({**json.loads(HEARTBEAT.to_json()), field: value}).encode()) is None


@pytest.mark.parametrize(
    "parts",
    [
        [],
        {},
        [{"key": "part-", "size": 1, "sha256": "a" * 64}],
        [{"key": "/part-0", "size": 1, "sha256": "a" * 64}],
        [{"key": "other/ckpt/0/part-0/", "size": 1, "sha256": "a" * 64}],
        [{"key": "../ckpt/0/part-0", "size": 1, "sha256": "a" * 64}],
        [{"key": "../../part-0", "size": 1, "sha256": "a" * 64}],
        [{"key": "part-0", "size": -1, "sha256": "a" * 64}],
        [{"key": "part-0", "size": 1, "sha256": "A" * 64}],
        [{"key": "part-0", "size": 1, "sha256": "a" * 64 + "\n"}],
        [{"key": "part-0", "size": 1}],
        ["part-0"],
    ],
)
def test_a_manifest_with_other_parts_is_refused(parts: Any) -> None:
    assert parse_manifest(json.dumps({**json.loads(MANIFEST.to_json()), "parts": parts}).encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b" " * MAX_OBJECT_BYTES + HEARTBEAT.to_json(),
        b"[" * 100_000,
        b'{"v":1,"seq":' + b"9" * 10_000 + b"}",
        b"\xff\xfe",
        b"null",
        b"",
    ],
)
def test_oversized_deep_and_broken_objects_are_refused(data: bytes) -> None:
    assert [parse(data) for parse in PARSERS] == [None, None, None]


@pytest.mark.parametrize(
    ("said", "known"),
    [(["run_again", "fly", 3, None], ("run_again",)), (["fly"], ()), ([], ()), (None, ()), ("run_again", ()), (7, ())],
)
def test_what_an_agent_can_do_is_read_as_far_as_it_is_known(said: Any, known: tuple[str, ...]) -> None:
    """Older agents say nothing of it, newer ones may say more: neither makes a heartbeat one that cannot be read."""
    body = {**json.loads(HEARTBEAT.to_json()), "can": said}
    beat = parse_heartbeat(json.dumps(body).encode())
    assert beat is not None
    assert beat.can == known
    del body["can"]
    assert parse_heartbeat(json.dumps(body).encode()) == HEARTBEAT


@pytest.mark.parametrize(
    ("code", "signal", "reason", "is_of_host"),
    [
        (1, None, "exited", False),
        (127, None, "exited", False),
        (-11, 11, "exited", False),
        (-9, 9, "exited", True),
        (137, 9, "exited", True),
        (-15, 15, "exited", True),
        (-9, 9, "stalled", False),
        (-15, 15, "stalled", False),
        (2, None, "setup_failed", False),
        (-9, 9, "setup_failed", True),
        (1, None, "inputs_failed", True),
        (1, None, "restore_failed", True),
        (1, None, "a word of another version", False),
    ],
)
def test_whose_failure_an_exit_is(code: int, signal: int | None, reason: str, is_of_host: bool) -> None:
    assert ExitRecord(1, code, signal, reason).is_of_host is is_of_host


def test_texts_cannot_carry_terminal_control() -> None:
    body = {**json.loads(EXIT.to_json()), "reason": "\x1b[2Jgone\n\ud800" + "x" * 2000}
    record = parse_exit(json.dumps(body).encode())
    assert record is not None
    assert record.reason.startswith(" [2Jgone  xx")
    assert len(record.reason) == MAX_TEXT
    record.reason.encode()
