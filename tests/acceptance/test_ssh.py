"""``autopilot ssh`` with a real sshd on a machine of each market: the key's owner gets in, and nobody stays."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, job_text, show, submit, until, without_settings
from tests.patience import PATIENCE_S

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed"),
]


@pytest.fixture(params=["vastai", "runpod"])
def theatre(request: pytest.FixtureRequest) -> Iterator[Theatre]:
    with a_theatre((request.param,)) as made:
        made.start_market()
        made.start_daemon()
        yield made


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    made = {name: tmp_path / name for name in ("mine", "other")}
    for path in made.values():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return made


class Door:
    """The command line of one user, whose settings lie in ``home``."""

    def __init__(self, theatre: Theatre, home: Path) -> None:
        self.env = without_settings() | theatre.daemon_environment() | {"XDG_CONFIG_HOME": str(home)}

    def open(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "autopilot.cli.main", "ssh", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
        )

    def __call__(self, *words: str) -> tuple[int, str, str]:
        done = self.open(*words)
        out, err = done.communicate(timeout=PATIENCE_S)
        return done.returncode, out, err


def with_key(text: str, public: Path) -> str:
    return f'{text}\n[ssh]\nkey = "{public.read_text().strip()}"\n'


def test_the_owner_of_the_key_is_let_in_for_as_long_as_the_job_is_there(
    theatre: Theatre, keys: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "autopilot").mkdir()
    (tmp_path / "autopilot" / "client.toml").write_text(f'[ssh]\nkey = "{keys["mine"]}.pub"\n')
    door = Door(theatre, tmp_path)
    job_id = submit(theatre, with_key(job_text(1_000_000), keys["mine"].with_suffix(".pub")))

    def inside() -> str | None:
        code, out, _ = door(job_id, "--", "pwd; echo $AUTOPILOT_CHECKPOINT_PATH; touch entered")
        return out if code == 0 else None

    said = str(until(inside, "a login")).split()
    assert said[0].endswith("/root/workspace")
    assert said[1] == f"{said[0]}/ckpt"
    assert (Path(said[0]) / "entered").exists()
    assert door(job_id, "--", "exit 7")[0] == 7
    assert (tmp_path / "autopilot" / "known_hosts").read_text().startswith("autopilot-")

    code, _, err = door(job_id, "-i", str(keys["other"]), "--", "true")
    assert (code, "Permission denied" in err) == (255, True)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = f"import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind='127.0.0.1')"
    assert door(job_id, "--", f'nohup python3 -c "{serve}" >/dev/null 2>&1 & echo started')[1] == "started\n"
    until(lambda: _reads(port), "what serves on the machine")
    # The machine's processes are this computer's, so the port is open here already: the tunnel begins beside it.
    tunnel = door.open(job_id, "--forward", str(port + 1), "--", "echo in; sleep 1000")
    assert tunnel.stdout is not None
    assert tunnel.stdout.readline() == "in\n"
    until(lambda: _is_open(port + 1), "the forwarded port")

    theatre.client.post(f"/v1/jobs/{job_id}/cancel")
    assert tunnel.wait(PATIENCE_S) != 0
    until(lambda: not _is_open(port), "nothing of the login lives on")
    code, _, err = door(job_id, "--", "true")
    assert code not in (0, 255)
    assert err.startswith("error: ")
    until(lambda: show(theatre, job_id)["job"]["status"] == "cancelled", "its end")


def test_a_held_machine_can_be_entered(theatre: Theatre, keys: dict[str, Path], tmp_path: Path) -> None:
    door = Door(theatre, tmp_path)
    text = job_text(1, run="run = 'echo broken > state; exit 3'").replace(
        "[checkpoint]", '[debug]\nhold = "60m"\n\n[retry]\nmax_attempts = 1\n\n[checkpoint]'
    )
    job_id = submit(theatre, with_key(text, keys["mine"].with_suffix(".pub")))
    until(lambda: show(theatre, job_id)["job"]["status"] == "failed", "its failure")
    said = until(lambda: door(job_id, "-i", str(keys["mine"]), "--", "cat state")[1], "a login")
    assert said == "broken\n"
    theatre.client.post(f"/v1/jobs/{job_id}/release")
    until(lambda: door(job_id, "-i", str(keys["mine"]), "--", "true")[0] != 0, "the machine is gone")


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _reads(port: int) -> bool:
    try:
        return bool(urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S).status == 200)
    except OSError:
        return False
