"""Code packed and laid out elsewhere, from any tree: the same bytes, one name, or a refusal."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopilot.agent.pack import Packed, pack
from autopilot.agent.shipped import chunks
from autopilot.agent.shipped.chunks import MAX_INDEX_BYTES
from autopilot.agent.shipped.code import MOST_PARTS, parse_code_index
from autopilot.agent.shipped.tree import Corrupt
from autopilot.agent.unpack import unpack_code
from autopilot.code.select import Wanted, select
from autopilot.domain.errors import UserError

STEPS = st.one_of(
    st.sampled_from(["a", "b", "a\nb", "-rf", " ", "*", "!x", "#y", "caf\u00e9", "\U0001f600", "x" * 200, "[1]", "\\"]),
    st.binary(min_size=1, max_size=6)
    .filter(lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b".."))
    .map(os.fsdecode),
)
PATHS = st.lists(STEPS, min_size=1, max_size=4).map("/".join)
LEAVES = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=300), st.booleans()),
    st.tuples(st.just("hole"), st.integers(0, 20_000), st.booleans()),
    st.tuples(st.just("link"), st.one_of(PATHS, st.sampled_from(["..", ".", "../..", "/etc/passwd", "a", "b"]))),
)
TREES = st.dictionaries(PATHS, LEAVES, min_size=1, max_size=12)


def build(root: Path, tree: dict[str, tuple[Any, ...]]) -> None:
    """As much of it as fits: what is in the way of another is left out."""
    for name, (kind, content, *flags) in tree.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path) or not path.parent.resolve().is_relative_to(root.resolve()):
                continue
            if kind == "link":
                path.symlink_to(content)
                continue
            with path.open("wb") as file:
                file.write(content) if kind == "file" else file.truncate(content)
            path.chmod(0o700 if flags[0] else 0o600)
        except OSError:
            continue


def unpack(packed: Packed, directory: Path) -> Path:
    def open_part(i: int) -> io.BytesIO:
        return io.BytesIO(packed.data if i == 0 else packed.open_part(i - 1).read())

    return unpack_code(packed.sha256, open_part, directory)


def content(root: Path, names: list[str]) -> dict[str, tuple[str, Any]]:
    found = {}
    for name in names:
        path = root / name
        is_link = path.is_symlink()
        found[name] = ("link", os.readlink(path)) if is_link else (str(path.stat().st_mode & 0o100), path.read_bytes())
    return found


@pytest.mark.slow
@settings(max_examples=100)
@given(tree=TREES, small_parts=st.booleans())
def test_a_tree_arrives_as_it_was_or_is_refused(tree: dict[str, tuple[Any, ...]], small_parts: bool) -> None:
    with TemporaryDirectory() as there, TemporaryDirectory() as here, pytest.MonkeyPatch.context() as patch:
        if small_parts:
            patch.setattr(chunks, "SMALLEST_PART_BYTES", 64)
        root, home = Path(there), Path(here)
        build(root, tree)
        refusal = ""
        try:
            selection = select(root, Wanted())
            packed = pack(selection.files)
        except (UserError, Corrupt) as problem:
            refusal = str(problem)
        assert not refusal or refusal.isprintable(), "a message is harmless on a terminal"
        if refusal:
            return
        assert len(packed.contents.parts) <= MOST_PARTS
        assert parse_code_index(packed.data) == packed.contents
        laid_out = unpack(packed, home)
        names = [each.entry.name.removeprefix("checkpoint/") for each in selection.files if each.entry.kind != "dir"]
        assert content(laid_out, names) == content(root, names)
        beneath = {os.path.relpath(Path(at) / name, laid_out) for at, _, files in os.walk(laid_out) for name in files}
        assert beneath <= set(names), "nothing else came along"
        for each in laid_out.rglob("*"):
            if not each.is_symlink():
                info = each.stat()
                assert (stat.S_IMODE(info.st_mode) in (0o644, 0o755), info.st_mtime) == (True, 0)


@settings(max_examples=40)
@given(tree=TREES, order=st.randoms(use_true_random=False))
def test_equal_trees_have_one_name_however_and_whenever_they_were_made(
    tree: dict[str, tuple[Any, ...]], order: Any
) -> None:
    with TemporaryDirectory() as there, TemporaryDirectory() as here:
        first, second = Path(there), Path(here)
        build(first, tree)
        for path in sorted(first.rglob("*"), key=lambda _: order.random()):  # copied in another order, at another time
            if path.is_symlink() or path.is_file():
                target = second / path.relative_to(first)
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.is_symlink():
                    target.symlink_to(os.readlink(path))
                else:
                    target.write_bytes(path.read_bytes())
                    target.chmod(0o751 if path.stat().st_mode & 0o100 else 0o640)
                    os.utime(target, (order.randint(1, 10**9),) * 2)
        try:
            assert pack(select(first, Wanted()).files).sha256 == pack(select(second, Wanted()).files).sha256
        except (UserError, Corrupt):
            return


@pytest.mark.slow
def test_a_hundred_thousand_files_fit_into_one_copy(tmp_path: Path) -> None:
    files = 100_000
    for at in range(0, files, 1000):
        directory = tmp_path / "job" / f"d{at // 1000:02}"
        directory.mkdir(parents=True)
        for i in range(at, at + 1000):
            os.close(os.open(directory / f"{i}.txt", os.O_CREAT, 0o644))
    (tmp_path / "job/train.py").write_text("print()")
    packed = pack(select(tmp_path / "job", Wanted()).files)
    assert packed.contents.file_count == files + 1
    assert len(packed.data) < MAX_INDEX_BYTES
    assert packed.sha256 == hashlib.sha256(packed.data).hexdigest()
    assert parse_code_index(packed.data).size == len("print()")


def test_more_files_than_an_index_holds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.agent.pack.MAX_INDEX_BYTES", 2000)
    for i in range(30):
        (tmp_path / str(i)).touch()
    with pytest.raises(Corrupt, match="too many files in it"):
        pack(select(tmp_path, Wanted()).files)


@pytest.mark.parametrize("harm", ["entries", "files", "parts", "slices"])
def test_a_copy_that_is_not_what_its_name_says_is_refused(tmp_path: Path, harm: str) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job/a").write_text("first")
    (tmp_path / "job/b").write_text("other")
    packed = pack(select(tmp_path / "job", Wanted()).files)
    index = packed.contents
    swapped = {
        "entries": index._replace(entries=[*index.entries[:1], index.entries[1], index.entries[1]]),
        "files": index._replace(files=[index.files[0], index.files[2], index.files[1]]),
        "parts": index._replace(parts=[(index.parts[0][0], "0" * 64)]),
        "slices": index._replace(slices=[[[2, 0, 5], [1, 0, 4]]]),
    }[harm]
    data = swapped.to_json()
    other = packed._replace(data=data, sha256=hashlib.sha256(data).hexdigest())
    (tmp_path / "out").mkdir()
    with pytest.raises(Corrupt):
        unpack(other, tmp_path / "out")
    with pytest.raises(Corrupt, match="does not match its SHA-256"):
        unpack(packed._replace(data=data), tmp_path / "out")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 1 << 70) | st.text(max_size=5) | st.sampled_from(["file", "0" * 64]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(data=st.data())
def test_a_stranger_s_index_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    sha256 = hashlib.sha256(b"ab").hexdigest()
    body: dict[str, Any] = {
        "v": 1,
        "root": "checkpoint",
        "entries": [["checkpoint", "dir", 0o755, 0, 0, ""], ["checkpoint/a", "file", 0o644, 0, 2, ""]],
        "slices": [[[1, 0, 2]]],
        "parts": [[2, sha256]],
        "files": ["", sha256],
    }
    assert parse_code_index(json.dumps(body).encode()).size == 2
    place: Any = body
    path: Any = data.draw(st.sampled_from(["v", "entries", "slices", "parts", "files"]))
    while isinstance(place[path], list) and place[path] and data.draw(st.booleans()):
        place, path = place[path], data.draw(st.integers(0, len(place[path]) - 1))
    place[path] = data.draw(JSON)
    with contextlib.suppress(Corrupt):
        parse_code_index(json.dumps(body).encode())
    with contextlib.suppress(Corrupt):
        parse_code_index(json.dumps(data.draw(JSON)).encode())
