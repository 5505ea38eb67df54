"""The onstart text and the agent's file as shipped."""

from __future__ import annotations

import ast
import hashlib
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.bootstrap import MAX_ONSTART_CHARS, agent_key, agent_sha256, agent_source, onstart
from autopilot.ports.blobs import checked_key


def test_the_agent_is_python_3_8_and_needs_the_standard_library_only() -> None:
    tree = ast.parse(agent_source(), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).split(".")[0])
    assert imported <= sys.stdlib_module_names


def test_the_hash_is_that_of_the_file_and_names_its_blob() -> None:
    assert agent_sha256() == hashlib.sha256(agent_source()).hexdigest()
    assert agent_sha256() in checked_key(agent_key())


def test_two_long_signed_urls_fit() -> None:
    url = "https://bucket.s3.eu-central-1.amazonaws.com/jobs/x/orders.json?" + "X-Amz-Security-Token=" * 45
    assert len(url) > 1000
    text = onstart(url, agent_sha256(), url)
    assert len(text) <= MAX_ONSTART_CHARS
    assert subprocess.run(["sh", "-n"], input=text.encode(), check=False).returncode == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="characters"):
        onstart("https://x/" + "a" * 2000, agent_sha256(), "https://x/" + "b" * 2000)


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=100),
    st.text("ab'\"$`\\ ;&\n{}%", max_size=50),
)
def test_urls_are_one_word_each(agent_url: str, orders_url: str) -> None:
    words = shlex.split(onstart(agent_url, "0" * 64, orders_url), comments=False)
    at = words.index("0" * 64)
    assert words[at + 1] == agent_url
    assert words[at + 2] == orders_url
