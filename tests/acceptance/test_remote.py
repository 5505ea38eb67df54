"""The command line on another machine: by a token, over TLS, with code sent and results fetched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autopilot.blobs.place import API, MailboxPlace
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, assert_one_error, until, without_settings
from tests.certificates import make_certificate
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

TRAIN = """\
import pathlib
print("trains", flush=True)
pathlib.Path("result.txt").write_text("done")
"""
JOB = """\
name = "far"
image = "python:3.12-slim"
run = "python3 train.py"

[code]

[resources]
gpu = "RTX 4090:1"

[budget]
total = "$3.00"

[outputs]
paths = ["result.txt"]
"""
HERE, THERE = "10.231.77.1", "10.231.77.2"
NAMESPACE, OUTSIDE, INSIDE = "ap-far", "ap-near0", "ap-far0"


@dataclass
class Laptop:
    """A home of its own, which holds nothing of the daemon's machine; ``prefix`` puts commands onto its network."""

    home: Path
    prefix: tuple[str, ...] = ()

    def run(self, *words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in without_settings().items() if not name.startswith("XDG_")}
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "autopilot.cli.main", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=cwd or self.home,
            env=kept | {"HOME": str(self.home)} | environment,
        )

    def good(self, *words: str, cwd: Path | None = None, **environment: str) -> str:
        done = self.run(*words, cwd=cwd, **environment)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    """The name of its home is short: the socket of a daemon of its own would lie there."""
    with tempfile.TemporaryDirectory(prefix="ap-") as home:
        yield Laptop(Path(home))


@contextmanager
def another_network() -> Iterator[tuple[str, ...]]:
    """What runs a command there; the two are joined by one line, on which this side is ``HERE``."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        ip("netns", "add", NAMESPACE)
        ip("link", "add", OUTSIDE, "type", "veth", "peer", "name", INSIDE, "netns", NAMESPACE)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("networks of their own take root and ip")
    try:
        ip("addr", "add", f"{HERE}/24", "dev", OUTSIDE)
        ip("link", "set", OUTSIDE, "up")
        ip("-n", NAMESPACE, "addr", "add", f"{THERE}/24", "dev", INSIDE)
        ip("-n", NAMESPACE, "link", "set", INSIDE, "up")
        yield ("ip", "netns", "exec", NAMESPACE)
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=False)


def settings(root: Path, address: str) -> dict[str, str]:
    cert, key = make_certificate(root, address)
    return {
        "AUTOPILOT_HTTP__LISTEN": f"{address}:0",
        "AUTOPILOT_HTTP__CERT_FILE": str(cert),
        "AUTOPILOT_HTTP__KEY_FILE": str(key),
    }


def daemon_url(theatre: Theatre, address: str) -> str:
    return f"https://{address}:{MailboxPlace(theatre.root / 'daemon').port(API)}"


def a_token(theatre: Theatre, directory: Path, **wish: object) -> Path:
    made = theatre.client.post("/v1/tokens", {"name": "laptop", "scope": "submit"} | wish)
    file = directory / "token"
    file.touch(mode=0o600)
    file.write_text(made["secret"])
    return file


def a_project(root: Path) -> Path:
    root.mkdir()
    (root / "train.py").write_text(TRAIN)
    (root / "job.toml").write_text(JOB)
    return root


def test_all_of_the_day_s_work_from_another_network(laptop: Laptop, tmp_path: Path) -> None:
    with another_network() as prefix, a_theatre(settings=settings(tmp_path, HERE)) as theatre:
        laptop.prefix = prefix
        theatre.start_market()
        theatre.start_daemon()
        url, token = daemon_url(theatre, HERE), a_token(theatre, tmp_path, sees_all=True)
        cert = shutil.copy(tmp_path / "cert.pem", laptop.home)
        logged_in = laptop.run("login", url, "--token-file", str(token), "--ca-file", str(cert))
        assert logged_in.returncode == 0, logged_in.stderr
        assert f"logged in at {url}" in logged_in.stdout
        assert token.read_text() not in logged_in.stdout + logged_in.stderr
        assert (laptop.home / ".config/autopilot/login.json").stat().st_mode & 0o777 == 0o600

        project = a_project(tmp_path / "project")
        sent = json.loads(laptop.good("submit", "job.toml", "--json", cwd=project))["job"]
        assert sent["owner"] == -1
        assert laptop.run("wait", "far").returncode == 0
        assert "trains" in laptop.good("logs", "far")
        laptop.good("pull", "far", str(tmp_path / "results"))
        assert (tmp_path / "results/result.txt").read_text() == "done"
        laptop.good("pull", "far", str(tmp_path / "ran"), "--code")
        assert (tmp_path / "ran/train.py").read_text() == TRAIN
        for words in (("ps", "-a"), ("show", "far"), ("why", "far"), ("spend",), ("budget",), ("prices", "RTX 4090")):
            assert laptop.good(*words)
        assert_one_error(laptop.run("token", "ls"), 4, "the token's scope is submit")
        assert laptop.good("login") == f"{url}, by {laptop.home / '.config/autopilot/login.json'}\n"
        assert laptop.good("login", "--end") == "logged out\n"
        assert_one_error(laptop.run("ps"), 3, "the daemon is not running at")


def test_by_variables_alone_and_each_trouble_has_one_error(laptop: Laptop, tmp_path: Path) -> None:
    with a_theatre(settings=settings(tmp_path, "127.0.0.1")) as theatre:
        theatre.start_market()
        theatre.start_daemon()
        url, token = daemon_url(theatre, "127.0.0.1"), a_token(theatre, tmp_path).read_text()
        good: dict[str, Any] = {"AUTOPILOT_URL": url, "AUTOPILOT_TOKEN": token}
        good["AUTOPILOT_CA_FILE"] = str(tmp_path / "cert.pem")
        assert json.loads(laptop.good("ps", "--json", **good))["jobs"] == []
        untrusted = laptop.run("ps", **good | {"AUTOPILOT_CA_FILE": ""})
        assert_one_error(untrusted, 4, "the certificate of", "is not trusted", "--ca-file")
        assert_one_error(laptop.run("ps", **good | {"AUTOPILOT_TOKEN": ""}), 4, "this takes a token")
        assert_one_error(laptop.run("ps", **good | {"AUTOPILOT_TOKEN": "aptk_no"}), 4, "not known, expired or revoked")
        plain = url.replace("https://", "http://")
        assert_one_error(laptop.run("ps", **good | {"AUTOPILOT_URL": plain}), 3, "broke off")
        assert_one_error(laptop.run("ps", **good | {"AUTOPILOT_URL": "http://192.0.2.1"}), 2, "no TLS")
        assert_one_error(laptop.run("ps", **good | {"AUTOPILOT_URL": "here"}), 2, "not the address of a daemon")
        assert_one_error(laptop.run("ps", **good | {"AUTOPILOT_CA_FILE": os.devnull}), 2, "no certificate")
        refused = laptop.run("login", url, AUTOPILOT_TOKEN="aptk_no", AUTOPILOT_CA_FILE="")
        assert refused.returncode == 4
        assert not (laptop.home / ".config/autopilot/login.json").exists()
        theatre.kill_daemon()
        until(lambda: laptop.run("ps", **good).returncode == 3, "the end of the listener")
        assert_one_error(laptop.run("ps", **good), 3, f"no daemon answers at {url}")
