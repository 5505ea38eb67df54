"""What an index shows of the distributions has no link that leads nowhere from there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hatch_build import write_page
from tests.locks import ROOT

LINK = re.compile(r"\]\(([^)]*)\)")
README = (ROOT / "README.md").read_text()
SOURCE = "https://forge.example/me/autopilot/blob/main"


def test_nothing_is_linked_while_nothing_is_published() -> None:
    page = write_page(README, "")
    assert [link for link in LINK.findall(page) if not link.startswith("https://")] == []
    assert "![" not in page
    assert "[quickstart]" not in page
    assert "quickstart" in page


def test_links_become_absolute() -> None:
    page = write_page(README, SOURCE)
    assert [link for link in LINK.findall(page) if not link.startswith("https://")] == []
    assert f"]({SOURCE}/docs/quickstart.md)" in page
    assert f"]({SOURCE}/docs/images/job.svg)" in page
    assert len(LINK.findall(page)) == len(LINK.findall(README))


@pytest.mark.parametrize("page", [ROOT / "packages/lab/README.md"], ids=["laboratory"])
def test_other_pages_have_no_links(page: Path) -> None:
    assert LINK.findall(page.read_text()) == []


def test_the_readme_installs_from_the_folder_in_three_lines() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    (block,) = (each for each in blocks if "autopilot init" in each)
    lines = block.splitlines()
    assert len(lines) == 3
    assert 'pip install --no-index --find-links dist "gpu-autopilot[' in lines[0]


def test_every_dynamic_field_has_a_hook() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["project"]["dynamic"]) == {"version", "readme", "urls"}
    assert "custom" in project["tool"]["hatch"]["metadata"]["hooks"]
