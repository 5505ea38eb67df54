"""The workflows for a forge call what is there, may only read, and run what they were checked with."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.locks import ROOT

yaml: Any = pytest.importorskip("yaml")  # brought by other packages; it has no types
FILES = {path.name: path.read_text() for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
WORKFLOWS: dict[str, dict[str, Any]] = {name: yaml.safe_load(text) for name, text in FILES.items()}
JOBS: dict[str, dict[str, Any]] = {
    f"{name}:{job}": spec for name, workflow in WORKFLOWS.items() for job, spec in workflow["jobs"].items()
}
MAKEFILE = (ROOT / "Makefile").read_text()
SUPPORTED = [
    line.rpartition(" ")[2]
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    if line.startswith("Programming Language :: Python :: 3.")
]


def steps(job: str, of: str) -> list[dict[str, Any]]:
    return [step for step in JOBS[job]["steps"] if of in step]


def test_there_are_some() -> None:
    assert list(FILES) == ["nightly.yml", "test.yml"]


@pytest.mark.parametrize("name", FILES)
def test_a_workflow_may_read_and_no_more(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    assert "secrets." not in FILES[name]
    assert {"group", "cancel-in-progress"} == WORKFLOWS[name]["concurrency"].keys()


@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_and_runs_pinned_actions_with_no_login(job: str) -> None:
    assert 0 < JOBS[job]["timeout-minutes"] <= 360
    assert "permissions" not in JOBS[job]
    for step in steps(job, "uses"):
        assert re.fullmatch(r"actions/(checkout|setup-python)@[0-9a-f]{40}", step["uses"])
    assert steps(job, "uses")[0]["with"]["persist-credentials"] is False


@pytest.mark.parametrize("job", JOBS)
def test_each_target_and_variable_is_in_the_makefile(job: str) -> None:
    for step in steps(job, "run"):
        make, target, *variables = step["run"].partition(' SEED_START="')[0].split()
        assert make == "make"
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
        for variable in variables:
            assert re.search(rf"^{variable.partition('=')[0]} +\?= ", MAKEFILE, re.MULTILINE)


def test_each_supported_python_is_tested() -> None:
    assert JOBS["test.yml:test"]["strategy"]["matrix"]["python"] == SUPPORTED
    (weekly,) = (step["with"] for step in steps("nightly.yml:check", "uses") if "python-version" in step["with"])
    assert sorted(weekly["python-version"].split()) == SUPPORTED
    assert f"|| set -- {' '.join(SUPPORTED)}\n" in (ROOT / "tools/pythons.sh").read_text()
