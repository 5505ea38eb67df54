"""The user data and the host program's file as shipped."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.host import artifact, shipped
from autopilot.host.artifact import SHARED, host_key, host_sha256, host_source
from autopilot.host.shipped.host import Host
from autopilot.host.shipped.install import install
from autopilot.host.shipped.places import Places
from autopilot.host.user_data import MAX_USER_DATA_CHARS, user_data
from autopilot.ports.blobs import check_key

SHIPPED = Path(shipped.__file__).parent
PATH = f"{sys.prefix}/bin:/usr/bin:/bin"


@pytest.mark.parametrize("module", sorted(SHIPPED.glob("*.py")), ids=lambda path: path.stem)
def test_each_module_is_python_3_8_and_needs_what_is_shipped_only(module: Path) -> None:
    tree = ast.parse(module.read_bytes(), feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level == 1:
            assert (SHIPPED / f"{node.module}.py").is_file()
        elif isinstance(node, ast.ImportFrom):
            room, _, name = str(node.module).rpartition(".")
            is_shared = room == "autopilot.agent.shipped" and f"{name}.py" in SHARED
            assert is_shared or str(node.module).split(".")[0] in sys.stdlib_module_names


def test_the_file_is_the_same_for_the_same_sources() -> None:
    again = artifact.host_source.__wrapped__()
    assert again == host_source()
    with zipfile.ZipFile(io.BytesIO(again)) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {f"autopilot/host/shipped/{path.name}" for path in SHIPPED.glob("*.py")} <= set(archive.namelist())


def test_it_runs_from_the_one_file_alone(tmp_path: Path) -> None:
    (tmp_path / "host.pyz").write_bytes(host_source())
    command = [sys.executable, "-I", "-S", str(tmp_path / "host.pyz")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env={"AUTOPILOT_ROOT": str(tmp_path)}
    )
    assert (done.returncode, done.stderr) == (2, "usage: host.pyz install ORDERS_URL | run | stop\n")


def test_the_hash_is_that_of_the_file_and_names_its_blob() -> None:
    assert host_sha256() == hashlib.sha256(host_source()).hexdigest()
    assert host_sha256() in check_key(host_key())


def test_two_long_signed_urls_fit_and_it_is_a_script() -> None:
    """The strictest market takes 10,000 characters; a market that knows scripts by their first line sees one."""
    url = "https://bucket.s3.eu-central-1.amazonaws.com/jobs/x/orders.json?" + "X-Amz-Security-Token=" * 45
    assert len(url) > 1000
    text = user_data(url, host_sha256(), url, speed=12.5)
    assert text.startswith("#!/bin/sh\n")
    assert len(text) <= MAX_USER_DATA_CHARS
    assert subprocess.run(["sh", "-n"], input=text.encode(), check=False).returncode == 0


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="characters"):
        user_data("https://x/" + "a" * 2000, host_sha256(), "https://x/" + "b" * 2000)


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=100),
    st.text("ab'\"$`\\ ;&\n{}%", max_size=50),
)
def test_urls_are_one_word_each(host_url: str, orders_url: str) -> None:
    words = shlex.split(user_data(host_url, "0" * 64, orders_url), comments=False)
    at = words.index("0" * 64)
    assert words[at + 1] == host_url
    assert words[at + 2] == orders_url


def test_a_program_that_is_there_already_is_started_with_the_orders(tmp_path: Path) -> None:
    program = b"import os, sys; print(*sys.argv[1:], os.environ.get('AUTOPILOT_CLOCK_SPEED'))"
    lib = tmp_path / "var/lib/autopilot-host"
    lib.mkdir(parents=True)
    (lib / "host.pyz").write_bytes(program)
    env = {"PATH": PATH, "AUTOPILOT_ROOT": str(tmp_path)}
    for speed, told in ((1, "None"), (30, "30")):
        text = user_data("http://127.0.0.1:1/h", hashlib.sha256(program).hexdigest(), "http://127.0.0.1:1/o", speed)
        done = subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == f"install http://127.0.0.1:1/o {told}\n"


@pytest.mark.parametrize("stays", [False, True])
def test_a_machine_without_python_switches_itself_off_unless_that_saves_nothing(tmp_path: Path, stays: bool) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mkdir").symlink_to("/bin/mkdir")
    (programs / "poweroff").write_text(f"#!/bin/sh\n: > {tmp_path}/off\n")
    (programs / "poweroff").chmod(0o755)
    text = user_data("http://127.0.0.1:1/h", host_sha256(), "http://127.0.0.1:1/o", stays=stays)
    env = {"PATH": str(programs), "AUTOPILOT_ROOT": str(tmp_path)}
    done = subprocess.run(["/bin/sh", "-c", text], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "off").exists()) == (1, not stays)


def test_a_machine_that_stays_knows_it_at_every_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later boot that hears of no orders would switch itself off after two minutes."""
    monkeypatch.setattr("autopilot.host.shipped.install.subprocess.call", lambda _: 0)
    places = Places({"AUTOPILOT_ROOT": str(tmp_path)})
    places.make()
    assert install(places, "http://127.0.0.1:1/o", "1", stays=True) == 0
    first = Host(places, 1.0)
    os.close(first.lock)
    again = Host(places, 1.0)
    assert again.boot == 2
    again.power_off("its permit has expired")  # where it may, it does not come back
    os.close(again.lock)
