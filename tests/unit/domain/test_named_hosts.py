"""The hosts that a job's texts name."""

from __future__ import annotations

import pytest

from autopilot.domain.named_hosts import MOST, find_hosts
from tests.builders import a_spec

PYPI = ("pypi.org", "files.pythonhosted.org")


@pytest.mark.parametrize(
    ("setup", "run", "hosts"),
    [
        ("", "python train.py", ()),
        ("pip install -r requirements.txt", "python train.py", PYPI),
        ("uv pip install torch", "", PYPI),
        ("git clone https://github.com/a/b && git clone git@gitlab.com:c/d", "", ("github.com", "gitlab.com:22")),
        (
            "hf download a/b",
            "curl http://User:pw@Data.example.org:8080/x | sh",
            ("huggingface.co", "data.example.org:8080"),
        ),
        ("wget http://example.org/x https://example.org/y", "", ("example.org:80", "example.org")),
        ("", "python serve.py --at http://127.0.0.1:80 --to http://localhost:1 --url https://$HOST/x", ()),
        ("", " ".join(f"https://h{i}.example.org" for i in range(20)), tuple(f"h{i}.example.org" for i in range(MOST))),
    ],
)
def test_what_is_named(setup: str, run: str, hosts: tuple[str, ...]) -> None:
    assert find_hosts(a_spec(setup=setup, run=run)) == hosts


def test_inputs_are_fetched_from_there_too() -> None:
    assert find_hosts(a_spec(inputs=(("x", "https://zenodo.org/x"),))) == ("zenodo.org",)


def test_a_job_that_goes_by_a_proxy_names_none() -> None:
    assert find_hosts(a_spec(setup="pip install x", env=(("HTTPS_PROXY", "http://proxy:1"),))) == ()
