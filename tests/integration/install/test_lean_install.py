"""requirements.lock is enough to run, and complete but for what requirements-left-out.txt names."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autopilot.clock import SystemClock
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests import wheels
from tests.locks import DEVELOP, ROOT, RUN, read_left_out, read_pins
from tests.patience import PATIENCE_S

RENT_ONCE = Path(__file__).with_name("rent_once.py")
KEYS = {"vastai": "sandbox-key", "runpod": "runpod-sandbox-key"}
RUNS = ("vast", "runpod", "nebius", "postgres", "s3")
"""Extras of ``requirements.lock``."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
LABORATORY = tomllib.loads((wheels.LABORATORY / "pyproject.toml").read_text())["project"]
LAB = [Requirement(line) for line in LABORATORY["dependencies"]]
MISSING = 'raise ModuleNotFoundError("No module named \'graphql\'", name="graphql")'


def reach(roots: list[Requirement], left_out: set[str]) -> set[str]:
    """Canonical names of everything that the roots ask for on this Python, by the metadata of what is installed."""
    reached: set[str] = set()
    asked = set()
    waiting = [(root, "") for root in roots]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if not applies or name in left_out or (name, frozenset(requirement.extras)) in asked:
            continue
        asked.add((name, frozenset(requirement.extras)))
        reached.add(name)
        for line in distribution(name).requires or ():
            waiting += [(Requirement(line), wanted) for wanted in ("", *requirement.extras)]
    return reached


@pytest.mark.parametrize("market", KEYS)
@pytest.mark.slow
async def test_a_machine_is_rented_with_the_locked_packages_alone(market: str, tmp_path: Path) -> None:
    config = SandboxConfig(state_dir=tmp_path, real_processes=False, enforce_rate_limits=False)
    async with running_sandbox(config, SystemClock()) as sandbox:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(RENT_ONCE), market, sandbox.url, KEYS[market]),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await child.communicate()
    assert child.returncode == 0, err.decode()
    assert out.decode().splitlines()[-1] == "create stop destroy", out.decode()


def test_the_lock_holds_what_is_asked_for_and_nothing_else() -> None:
    roots = [*CORE, *(line for extra in RUNS for line in EXTRAS[extra])]
    assert reach(roots, set(read_left_out())) == set(read_pins(RUN))


def test_the_lock_for_development_holds_the_tools() -> None:
    assert reach([*CORE, *LAB, *EXTRAS["dev"]], set()) == set(read_pins(DEVELOP))


def test_both_locks_pin_the_same_versions() -> None:
    run, develop = read_pins(RUN), read_pins(DEVELOP)
    assert {name: develop[name] for name in run.keys() & develop} == {name: run[name] for name in run.keys() & develop}


def test_each_left_out_package_has_a_reason_and_a_dependent() -> None:
    declared = {
        canonicalize_name(Requirement(line).name)
        for package in ("vastai", "runpod", "aiohttp")
        for line in distribution(package).requires or ()
    }
    left_out = read_left_out()
    assert [name for name, reason in left_out.items() if not reason] == []
    assert set(left_out) <= declared
    assert left_out.keys() & read_pins(RUN) == set()


@pytest.mark.parametrize("lock", [RUN, DEVELOP], ids=lambda lock: lock.name)
def test_a_lock_has_a_hash_for_each_package_and_names_no_registry(lock: Path) -> None:
    text = lock.read_text()
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"://|^\s*-[-a-z]*(?:index|find-links|host).*", text, re.MULTILINE) == []


def test_the_extra_all_is_what_runs() -> None:
    assert sorted(map(str, EXTRAS["all"])) == sorted(str(line) for extra in RUNS for line in EXTRAS[extra])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sandbox", "demo"])
def test_without_graphql_one_line_says_so(command: str, tmp_path: Path) -> None:
    (tmp_path / "graphql.py").write_text(MISSING)  # what an import meets in this process and in those that it starts
    arguments = [sys.executable, "-m", "autopilot.cli.main", command]
    said = subprocess.run(
        arguments, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert said.returncode != 0
    assert "Traceback" not in said.stdout + said.stderr
    (line,) = said.stderr.splitlines()
    assert "graphql-core" in line
    assert "pip install --no-index --find-links dist gpu-autopilot-lab" in line


def test_the_laboratory_asks_no_registry_for_the_program() -> None:
    """Neither is published, and pip would look for the name there."""
    asked = [*LAB, *map(Requirement, itertools.chain(*LABORATORY["optional-dependencies"].values()))]
    assert [each.name for each in asked if each.name.startswith(PROJECT["name"])] == []


def test_no_hint_and_no_page_installs_by_a_name_that_is_not_published() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "pyproject.toml",
        *wheels.LABORATORY.glob("*.*"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "systemd").iterdir(),
    ]
    sources = [*pages, *(path for room in ("autopilot", "packages") for path in (ROOT / room).rglob("*.py"))]
    named = re.compile(r"^.*(?:pip|tool) install .*gpu-autopilot.*$", re.MULTILINE)
    lines = {(str(file), line) for file in sources for line in named.findall(file.read_text())}
    assert lines
    assert [line for line in lines if "--no-index --find-links dist" not in line[1]] == []
