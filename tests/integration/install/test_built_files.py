"""What the wheel and the sdist hold, and that both carry the version that the program states of itself."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from autopilot import __version__
from tests import wheels
from tests.locks import ROOT


def test_the_wheel_is_the_program_and_is_typed(tmp_path: Path) -> None:
    wheel = wheels.build(ROOT, tmp_path)
    about = f"gpu_autopilot-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert f"\nVersion: {__version__}\n" in archive.read(f"{about}/METADATA").decode()
    assert "autopilot/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {"autopilot", about}


def test_the_sdist_leaves_out_the_wheel_of_the_version_before(tmp_path: Path) -> None:
    sdist = wheels.build(ROOT, tmp_path, "sdist")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sdist.name == f"gpu_autopilot-{__version__}.tar.gz"
    assert names >= {"tests/previous.py", "tests/assets/previous/ledger.sql", "autopilot/py.typed", "Makefile"}
    assert [name for name in names if name.endswith(".whl")] == []
