"""A checkpoint's index comes from a stranger: nothing in it leads elsewhere, and its parts make its files exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped import chunks
from autopilot.agent.shipped.chunks import PartReader, PartWriter, cut, cut_at, index_of, length_of, read_index
from autopilot.agent.shipped.tree import Corrupt, Entry, check_entries, finish, lay_out


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
