"""What the wheels and the sdist hold, and that all carry the version that the program states of itself."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from autopilot import __version__
from tests import wheels
from tests.locks import ROOT

PRODUCT = f"gpu_autopilot-{__version__}.dist-info"
LABORATORY = f"gpu_autopilot_lab-{__version__}.dist-info"
ROOMS = {
    *("agent", "answers", "api", "blobs", "books", "certify", "cli", "client", "code", "config", "domain", "engine"),
    *("images", "openssh"),
    *("host", "listener", "mailbox", "markets", "notices", "planning", "policy", "ports", "pricing", "providers"),
    "rehearsal",
    *("service", "store", "telemetry", "tunnels", "web", "words"),
}
"""Of the product, each a directory of modules."""
DATA = {"_data", "migrations"}
FILES = {
    "__init__.py",
    "addresses.py",
    "checkpoint.py",
    "clock.py",
    "ids.py",
    "py.typed",
    "render.py",
    "system.py",
    "training.py",
    "workers.py",
}


def listed(wheel: Path, about: str) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        assert f"\nVersion: {__version__}\n" in archive.read(f"{about}/METADATA").decode()
        return archive.namelist()


def test_the_wheel_of_the_product_has_its_rooms_and_nothing_of_the_laboratory(tmp_path: Path) -> None:
    names = listed(wheels.build(ROOT, tmp_path), PRODUCT)
    assert {name.partition("/")[0] for name in names} == {"autopilot", PRODUCT}
    own = [name.split("/")[1:] for name in names if name.startswith("autopilot/")]
    assert {parts[0] for parts in own if len(parts) > 1} == ROOMS | DATA
    assert {parts[0] for parts in own if len(parts) == 1} == FILES
    # What only a simulator, a ledger in memory or an asset of a test has in its path.
    apart = {"lab", "sandbox", "memory_store", "demo", "backtest", "tests", "assets", "simulation"}
    assert ["/".join(parts) for parts in own if apart & {part.removesuffix(".py") for part in parts}] == []


def test_the_wheel_of_the_laboratory_has_nothing_of_the_product(tmp_path: Path) -> None:
    names = listed(wheels.build(wheels.LABORATORY, tmp_path), LABORATORY)
    assert {name.partition("/")[0] for name in names} == {"autopilot_lab", LABORATORY}
    assert set(names) >= {
        *("autopilot_lab/py.typed", "autopilot_lab/sandbox/runpod/schema.graphql", f"{LABORATORY}/licenses/LICENSE"),
        "autopilot_lab/sandbox/images/demo/opt/demo/train.py",
        *(f"autopilot_lab/{room}/__init__.py" for room in ("backtest", "demo", "memory_store", "sandbox")),
    }


@pytest.mark.slow
def test_the_sdist_leaves_out_the_wheel_of_the_version_before(tmp_path: Path) -> None:
    sdist = wheels.build(ROOT, tmp_path, "sdist")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sdist.name == f"gpu_autopilot-{__version__}.tar.gz"
    assert names >= {"tests/previous.py", "tests/assets/previous/ledger.sql", "autopilot/py.typed", "Makefile"}
    assert names >= {"packages/lab/pyproject.toml", "packages/lab/LICENSE", "packages/lab/autopilot_lab/py.typed"}
    assert [name for name in names if name.endswith(".whl")] == []
