"""A wheel that is kept under a version of its own is whole, and its code is what was built."""

from __future__ import annotations

import csv
import subprocess
import zipfile
from pathlib import Path

import pytest

from autopilot import __version__
from tests import previous, wheels

VERSION = "1.2.0.dev0+gabc"
ABOUT = b"Metadata-Version: 2.4\nName: rack\nVersion: 1.2.0\nSummary: Version: 1.2.0\n"
CODE = b'"""Version: 1.2.0"""\n__version__ = "1.2.0"\n'


@pytest.fixture
def rack(tmp_path: Path) -> Path:
    made = tmp_path / "rack-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("rack/__init__.py", CODE)
        archive.writestr("rack-1.2.0.dist-info/METADATA", ABOUT)
        archive.writestr("rack-1.2.0.dist-info/RECORD", "")
    return made


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def assert_is_whole(wheel: Path) -> None:
    """RECORD names each file with its hash and size, as an installer checks it."""
    name, version, *_ = wheel.name.split("-")
    files = contents(wheel)
    record = f"{name}-{version}.dist-info/RECORD"
    rows = {path: (digest, size) for path, digest, size in csv.reader(files[record].decode().splitlines())}
    expected = {path: (wheels.digest(data), str(len(data))) for path, data in files.items()}
    assert rows == expected | {record: ("", "")}
    assert f"\nVersion: {version}\n" in files[f"{name}-{version}.dist-info/METADATA"].decode()


def test_it_carries_the_version_and_the_same_code(rack: Path, tmp_path: Path) -> None:
    kept = wheels.under_version(rack, VERSION, tmp_path)
    assert kept.name == f"rack-{VERSION}-py3-none-any.whl"
    assert_is_whole(kept)
    files = contents(kept)
    assert list(files) == ["rack/__init__.py", *(f"rack-{VERSION}.dist-info/{name}" for name in ("METADATA", "RECORD"))]
    assert files["rack/__init__.py"] == CODE
    assert files[f"rack-{VERSION}.dist-info/METADATA"] == ABOUT.replace(
        b"\nVersion: 1.2.0", f"\nVersion: {VERSION}".encode()
    )


def test_a_version_names_its_revision_and_whether_it_was_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        return subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert previous.kept_version("0.1.0", "HEAD") == f"0.1.0.dev0+g{commit}"
    assert previous.kept_version("0.2.0.dev0", "HEAD") == f"0.2.0.dev0+g{commit}"
    git("tag", "v0.1.0")
    assert previous.kept_version("0.1.0", "v0.1.0") == f"0.1.0+g{commit}"


@pytest.mark.skipif(previous.kept_wheel() is None, reason=previous.NOT_KEPT)
def test_the_wheel_of_the_version_before_is_whole_and_no_other_program_s() -> None:
    kept = previous.kept_wheel()
    assert kept is not None
    assert_is_whole(kept)
    assert kept.name.split("-")[1].partition("+")[2], "its version names a revision"
    assert kept.name.split("-")[1] != __version__
