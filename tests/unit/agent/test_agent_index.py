"""A checkpoint's index comes from a stranger: nothing in it leads elsewhere, and its parts make its files exactly."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped import chunks, tree
from autopilot.agent.shipped.chunks import (
    PartReader,
    PartWriter,
    cut,
    cut_at,
    index_of,
    length_of,
    parse_index,
    read_index,
)
from autopilot.agent.shipped.tree import Corrupt, Entry, Paths, check_entries, finish, lay_out


def row(name: str, kind: str = "file", size: int = 0, link: str = "") -> list[Any]:
    return [name, kind, 0o644, 0, size, link]


@pytest.mark.parametrize(
    "rows",
    [
        [row("/etc/passwd")],
        [row("checkpoint/../../evil")],
        [row("checkpoint//evil")],
        [row("elsewhere")],
        [row("checkpoint/link", "link", link="/etc")],
        [row("checkpoint/link", "link", link="../../evil")],
        [row("checkpoint/device", "device")],
        [row("checkpoint"), row("checkpoint/below-a-file")],
        [row("checkpoint", "dir"), row("checkpoint/a", "link", link="b"), row("checkpoint/a/file")],
        [row("checkpoint"), row("checkpoint")],
        [],
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(rows: list[list[Any]]) -> None:
    entries, _ = read_index({"v": 1, "entries": rows, "slices": []}, [])
    with pytest.raises(Corrupt):
        check_entries(entries)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        pytest.param([row("checkpoint/a\0b")], "not text", id="nul"),
        pytest.param([row("checkpoint/\ud800")], "not text", id="half-a-character"),
        pytest.param([row("checkpoint/l", "link", link="a\0b")], "not text", id="nul-in-a-link"),
        pytest.param([row("checkpoint/" + "n" * 256)], "too long", id="long-name"),
        pytest.param([row("checkpoint/" + "ü" * 200)], "too long", id="long-in-bytes"),
        pytest.param([row("checkpoint" + "/ab" * 1300)], "too long", id="long-path"),
        pytest.param([row("checkpoint/l", "link")], "leads elsewhere", id="empty-link"),
        pytest.param([["checkpoint", "file", "0o644", 0, 0, ""]], "cannot be read", id="mode-as-text"),
        pytest.param([row("checkpoint", size=10**40)], "does not fit", id="size-of-10^40"),
    ],
)
def test_what_no_disk_can_hold_is_no_index(rows: list[list[Any]], reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        parse_index(json.dumps({"v": 1, "entries": rows, "slices": []}).encode(), [])


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"v":1,"entries":[' + b"[]," * 100_000 + b'[]],"slices":[]}',
        b'{"v":1,"entries":[["checkpoint","file",' + b"9" * 5_000 + b',0,0,""]],"slices":[]}',
        b'{"entries":[["checkpoint","file",420,0,0,""]],"slices":[]}',
        b"\xff\xfe\x00",
        b"null",
        b" " * (chunks.MAX_INDEX_BYTES + 1),
    ],
    ids=["recursion", "brackets", "long-number", "no-version", "not-text", "null", "too-large"],
)
def test_each_fault_is_one_error(data: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_index(data, [])


def test_times_and_modes_beyond_all_sense_are_laid_out(tmp_path: Path) -> None:
    rows = [["checkpoint", "dir", 10**40, 10**40, 0, ""], ["checkpoint/old", "file", -1, -(10**40), 0, ""]]
    entries, _, _ = parse_index(json.dumps({"v": 1, "entries": rows, "slices": []}).encode(), [])
    lay_out(entries, str(tmp_path))
    finish(entries, str(tmp_path))
    (tmp_path / "checkpoint").chmod(0o700)
    assert (tmp_path / "checkpoint/old").stat().st_mtime == 0


def test_a_shut_directory_is_shut_last(tmp_path: Path) -> None:
    """Also where its index lists it after what is in it."""
    rows = [row("checkpoint/shut/file"), ["checkpoint/shut", "dir", 0, 0, 0, ""], row("checkpoint", "dir")]
    rows[2][2] = 0o755
    entries, _, _ = parse_index(json.dumps({"v": 1, "entries": rows, "slices": []}).encode(), [])
    order: list[str] = []
    finish_modes = {"checkpoint/shut/file": 1, "checkpoint/shut": 2, "checkpoint": 3}
    lay_out(entries, str(tmp_path))

    def mode_of(entry: Entry) -> int:
        order.append(entry.name)
        return 0o755

    finish(entries, str(tmp_path), mode_of)
    assert order == sorted(finish_modes, key=lambda name: finish_modes[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "links",
    [
        pytest.param([(f"{i:05}", f"{i + 1:05}") for i in range(20_000)], id="a-chain"),
        pytest.param([(f"{i:05}", "/".join(["x"] * 40 + [".."] * 40)) for i in range(20_000)], id="long-detours"),
        pytest.param([(f"{i:05}", "00000") for i in range(20_000)], id="all-to-one"),
    ],
)
def test_many_links_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch, links: list[tuple[str, str]]) -> None:
    taken = [0]
    step = Paths.step

    def counted(self: Paths, place: int, name: str) -> int:
        taken[0] += 1
        return step(self, place, name)

    monkeypatch.setattr(Paths, "step", counted)
    rows = [row("checkpoint", "dir"), *(row(f"checkpoint/{name}", "link", link=goal) for name, goal in links)]
    with contextlib.suppress(Corrupt):
        check_entries([Entry(*each) for each in rows])
    length = sum(1 + each[0].count("/") + 1 + each[5].count("/") for each in rows)
    assert taken[0] <= 4 * length


GOOD = {"v": 1, "entries": [row("checkpoint", size=5)], "slices": [[[0, 0, 3]], [[0, 3, 2]]]}


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"entries": [row("checkpoint", size=6)]},
        {"entries": [["checkpoint", "file"]]},
        {"entries": [["checkpoint", "file", "0o644", 0, 5, ""]]},
        {"entries": 5},
        {"slices": [[[0, 0, 3]], [[0, 2, 2]]]},
        {"slices": [[[0, 0, 3]], [[0, 3, -2]]]},
        {"slices": [[[0, 0, 3]], [[1, 0, 2]]]},
        {"slices": [[[0, 0, 3]], [[-1, 3, 2]]]},
        {"slices": [[[0, 0, 3]]]},
        {"slices": [[[0, 0, 3]], [[0, 3, True]]]},
        {"slices": [[[0, 0, 2]], [[0, 2, 3]]]},
    ],
)
def test_slices_must_make_the_files_exactly(change: dict[str, Any]) -> None:
    read_index(GOOD, [3, 2])
    with pytest.raises(Corrupt):
        read_index({**GOOD, **change}, [3, 2])


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda x: st.lists(x, max_size=3), max_leaves=8))
def test_noise_is_no_index(noise: Any) -> None:
    for body in (noise, {"v": 1, "entries": noise, "slices": noise}):
        with pytest.raises(Corrupt):
            check_entries(read_index(body, [1])[0])


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12))
def test_every_byte_is_in_one_part_and_no_part_is_too_large(sizes: list[int]) -> None:
    entries = [Entry(f"checkpoint/{i}", "file", 0o644, 0, size) for i, size in enumerate(sizes)]
    parts = cut_at(entries, 20)
    assert all(0 < length_of(part) <= 20 for part in parts)
    assert read_index(json.loads(json.dumps(index_of(entries, parts))), [length_of(part) for part in parts])


def test_small_files_share_a_part_until_it_is_full_and_large_ones_are_cut() -> None:
    def parts(*sizes: int) -> list[list[Any]]:
        return cut_at([Entry(f"checkpoint/{i}", "file", 0o644, 0, size) for i, size in enumerate(sizes)], 20)

    assert parts(9, 9, 2, 1) == [[[0, 0, 9], [1, 0, 9], [2, 0, 2]], [[3, 0, 1]]], "the third just fits"
    assert parts(9, 9, 3) == [[[0, 0, 9], [1, 0, 9]], [[2, 0, 3]]]
    assert parts(10) == [[[0, 0, 10]]]
    assert parts(1, 45, 2) == [[[1, 0, 20]], [[1, 20, 20]], [[1, 40, 5]], [[0, 0, 1], [2, 0, 2]]]
    assert parts(0) == []


def test_an_index_says_what_machines_read() -> None:
    entry = Entry("checkpoint", "file", 0o644, 7, 5)
    index = {"v": 1, "root": "checkpoint", "entries": [list(entry)], "slices": [[[0, 0, 5]]]}
    assert index_of([entry], [[[0, 0, 5]]]) == index
    assert index_of([entry], [[[0, 0, 5]]], "a" * 32) == {**index, "mlflow_run": "a" * 32}
    data = json.dumps(index_of([entry], [[[0, 0, 5]]], "a" * 32)).encode()
    assert parse_index(data, [5]) == ([entry], [[[0, 0, 5]]], "a" * 32)


def test_an_index_has_room_for_six_bytes_a_list() -> None:
    with pytest.raises(Corrupt, match="cannot be read"):
        parse_index(b"[" * 200 + b" " * 400, [])
    with pytest.raises(Corrupt, match="made of brackets"):
        parse_index(b"[" * 201 + b" " * 399, [])


def test_as_many_files_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tree.MAX_ENTRIES == 250_000
    monkeypatch.setattr(tree, "MAX_ENTRIES", 3)
    entries = [Entry(*row(f"checkpoint/{i}")) for i in range(4)]
    assert check_entries(entries[:3]) == entries[:3]
    assert check_entries(entries[:1]) == entries[:1]
    with pytest.raises(Corrupt, match="too many files"):
        check_entries(entries)


def test_a_name_may_have_255_bytes_and_a_path_3800() -> None:
    check_entries([Entry(*row("checkpoint/" + "n" * 255))])
    path = "checkpoint" + ("/" + "n" * 250) * 15
    longest = path + "/" + "n" * (3800 - len(path) - 1)
    check_entries([Entry(*row(longest))])
    with pytest.raises(Corrupt, match="too long"):
        check_entries([Entry(*row(longest + "n"))])


@pytest.mark.parametrize(("length", "is_followed"), [(1, True), (39, True), (40, True), (41, False)])
@pytest.mark.parametrize("is_backwards", [False, True], ids=["from its begin", "from its end"])
def test_forty_links_are_followed(length: int, is_followed: bool, is_backwards: bool) -> None:
    """As many as Linux follows."""
    rows = [row(f"checkpoint/{i}", "link", link=str(i + 1)) for i in range(length)]
    rows = [*(rows[::-1] if is_backwards else rows), row(f"checkpoint/{length}")]
    if is_followed:
        assert len(check_entries([Entry(*each) for each in rows])) == length + 1
    else:
        with pytest.raises(Corrupt, match="a link in it leads elsewhere"):
            check_entries([Entry(*each) for each in rows])


def test_a_path_to_all_of_a_disk_s_root_is_no_reason_to_lose_links() -> None:
    assert tree.portable("/ckpt/weights", "checkpoint/latest", "/ckpt/latest") == "weights"
    assert tree.portable("/ckpt/a/weights", "checkpoint/b/latest", "/ckpt/b/latest") == "../a/weights"
    assert tree.portable("/other/weights", "checkpoint/latest", "/ckpt/latest") == "/other/weights"


def test_many_parts_become_fewer_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 1)
    parts = cut([Entry("checkpoint", "file", 0o644, 0, 10_000)])
    assert len(parts) <= chunks.MOST_DATA_PARTS
    assert length_of(slice for part in parts for slice in part) == 10_000


@given(content=st.lists(st.binary(max_size=40), min_size=1, max_size=8), block=st.integers(1, 30))
def test_parts_carry_files_from_one_place_to_another(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], block: int
) -> None:
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    entries = [Entry("checkpoint", "dir", 0o755, 0)]
    entries += [Entry(f"checkpoint/{i}", "file", 0o644, 0, len(data)) for i, data in enumerate(content)]
    lay_out(entries, str(here))
    for i, data in enumerate(content):
        (here / f"checkpoint/{i}").write_bytes(data)
    lay_out(entries, str(there))
    for part in cut_at(entries, 16):
        reader, writer = PartReader(str(here), entries, part), PartWriter(str(there), entries, part)
        assert reader.read(0) == b""
        while data := reader.read(block):
            writer.write(data)
        assert (reader.size, reader.sha256.digest()) == (writer.size, writer.sha256.digest())
    finish(entries, str(there))
    assert [(there / f"checkpoint/{i}").read_bytes() for i in range(len(content))] == content


def test_a_part_that_is_longer_than_its_files_is_refused(tmp_path: Path) -> None:
    entries = [Entry("checkpoint", "file", 0o644, 0, 3)]
    lay_out(entries, str(tmp_path))
    writer = PartWriter(str(tmp_path), entries, [[0, 0, 3]])
    with pytest.raises(Corrupt):
        writer.write(b"four")
