"""The onstart text and the agent's file as shipped."""

from __future__ import annotations

import ast
import hashlib
import io
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot import checkpoint
from autopilot.agent import artifact, shipped
from autopilot.agent.artifact import HELPERS, agent_key, agent_sha256, agent_source
from autopilot.agent.bootstrap import MAX_ONSTART_CHARS, onstart
from autopilot.domain.start_faults import find_telling_line
from autopilot.ports.blobs import check_key

SHIPPED = Path(shipped.__file__).parent


@pytest.mark.parametrize("module", sorted(SHIPPED.glob("*.py")), ids=lambda path: path.stem)
def test_each_module_is_python_3_8_and_needs_the_standard_library_only(module: Path) -> None:
    tree = ast.parse(module.read_bytes(), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1
            assert (SHIPPED / f"{node.module}.py").is_file()
    assert imported <= sys.stdlib_module_names


def test_the_file_is_the_same_for_the_same_sources() -> None:
    again = artifact.agent_source.__wrapped__()
    assert again == agent_source()
    with zipfile.ZipFile(io.BytesIO(again)) as archive:
        names = archive.namelist()
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names == ["__main__.py", *sorted(names[1:])]
    own = {name for name in names[1:] if not name.startswith("helper/")}
    assert {name.partition("/")[2] for name in own} == {path.name for path in SHIPPED.glob("*.py")}


@pytest.mark.parametrize("name", HELPERS)
def test_the_helper_that_machines_get_is_the_one_that_is_installed(name: str, tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(agent_source())
    code = f"import inspect, sys, autopilot.{name} as c; sys.stdout.write(inspect.getsource(c))"
    env = {"PYTHONPATH": str(tmp_path / "agent.pyz" / "helper")}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == Path(checkpoint.__file__).with_name(f"{name}.py").read_text()
    tree = ast.parse(done.stdout, feature_version=(3, 8))
    imports = [node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert set(imports) <= sys.stdlib_module_names


def test_it_runs_from_the_one_file(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(agent_source())
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "agent.pyz")], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (2, "usage: agent.pyz ORDERS_URL\n")


def test_the_hash_is_that_of_the_file_and_names_its_blob() -> None:
    assert agent_sha256() == hashlib.sha256(agent_source()).hexdigest()
    assert agent_sha256() in check_key(agent_key())


def test_a_clock_that_runs_faster_is_told_to_the_agent(tmp_path: Path) -> None:
    """No market sets the variable: the text does, for the loader and for the agent that it becomes."""
    agent = b"import os; print('speed', os.environ.get('AUTOPILOT_CLOCK_SPEED'))"
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "agent.pyz").write_bytes(agent)
    env = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "AUTOPILOT_ROOT": f"{tmp_path}/", "AUTOPILOT_STATE": "state"}
    for speed, told in ((1, "None"), (900, "900"), (0.5, "0.5")):
        text = onstart("http://127.0.0.1:1/a", hashlib.sha256(agent).hexdigest(), "http://127.0.0.1:1/o", speed)
        done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == f"speed {told}\n"


NO_NAMES = """
import socket, sys, time
waits = []
def sleep(seconds):
    waits.append(seconds)
    if len(waits) == 6:
        sys.exit(f"{sum(waits[:5]):g} s")
def resolve(*_, **__):
    raise socket.gaierror(-3, "Temporary failure in name resolution")
time.sleep, socket.getaddrinfo = sleep, resolve
exec(sys.stdin.read())
"""


def test_after_a_minute_its_log_says_that_there_is_no_network(tmp_path: Path) -> None:
    url = "https://bucket.example/agent.pyz"
    text = onstart(url, "0" * 64, url)
    (loader,) = [word for word in shlex.split(text) if word.startswith("import base64")]
    arguments = [str(tmp_path / "agent.pyz"), "0" * 64, url, url]
    run = [sys.executable, "-c", NO_NAMES, *arguments]
    done = subprocess.run(run, input=loader, capture_output=True, text=True, check=False)
    assert done.stderr == "62 s\n"
    assert find_telling_line(done.stdout)[0] == "no_network"
    assert find_telling_line("\n".join(done.stdout.splitlines()[:-1]))[0] == "pull_failed", "a minute is not over"


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
