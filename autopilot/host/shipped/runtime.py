"""Docker with GPUs: looked for piece by piece, and only what is missing is installed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

from .docker import Docker
from .fault import Fault
from .places import Places

INSTALL_S = 600
UP_S = 60
_METADATA = "169.254.169.254"
"""Where clouds answer any program on the machine, with the user data, too."""

SETTINGS: dict[str, Any] = {
    "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}},
    "log-driver": "local",
    "log-opts": {"max-size": "50m"},
    "shutdown-timeout": 55,
    # With systemd's own driver containers lose their GPUs when units are reloaded (nvidia-container-toolkit, #48).
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
}


def prepare_docker(docker: Docker, places: Places, speed: float) -> None:
    """Raises ``Fault``, ``OSError``."""
    up_s, install_s = max(UP_S / speed, 10), max(INSTALL_S / speed, 2)
    if not docker.is_up():
        run(["systemctl", "start", "docker"], up_s)
        if not _await(docker.is_up, up_s if shutil.which("docker") else 0):
            install("docker.io", "no_docker", install_s)
            run(["systemctl", "enable", "--now", "docker"], up_s)
            if not _await(docker.is_up, up_s):
                raise Fault("no_docker", "docker is installed and does not start")
    if shutil.which("nvidia-container-runtime") is None:
        install("nvidia-container-toolkit", "no_gpu", install_s)
    if merge_settings(places.docker_settings):
        run(["systemctl", "restart", "docker"], up_s)
        if not _await(docker.is_up, up_s):
            raise Fault("no_docker", f"docker does not start with {places.docker_settings}")
    with contextlib.suppress(OSError):  # not everywhere; what the job could read there is no secret of ours
        rule = ["DOCKER-USER", "-d", _METADATA, "-j", "DROP"]
        if run(["iptables", "-C", *rule], up_s)[0]:
            run(["iptables", "-I", *rule], up_s)


def check_gpus(wanted: int, within_s: float) -> None:
    """Raises ``Fault`` for fewer than the market sold."""
    try:
        code, said = run(["nvidia-smi", "-L"], within_s)
    except OSError as error:
        raise Fault("no_gpu", f"nvidia-smi cannot be run: {error}") from None
    found = sum(line.startswith("GPU ") for line in said.splitlines())
    if code or found < wanted:
        raise Fault("no_gpu", f"nvidia-smi shows {found} GPUs of {wanted}: {said.strip()[-200:]}")


def merge_settings(path: str) -> bool:
    """Whether docker must be restarted for them. Raises ``OSError``, and ``Fault`` for a file that is not JSON."""
    try:
        with open(path) as file:
            before = json.load(file)
    except FileNotFoundError:
        before = {}
    except ValueError:
        raise Fault("no_docker", f"{path} is not JSON") from None
    others = [option for option in before.get("exec-opts", []) if "cgroupdriver" not in option]
    after = {**before, **SETTINGS}
    after["runtimes"] = {**before.get("runtimes", {}), **SETTINGS["runtimes"]}
    after["exec-opts"] = [*others, *SETTINGS["exec-opts"]]
    if after == before:
        return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(after, file, indent=1)
    os.replace(path + ".new", path)
    return True


def install(package: str, fault: str, within_s: float) -> None:
    """Raises ``Fault``."""
    ends_at = time.monotonic() + within_s
    for words in (["-q", "update"], ["-qy", "install", package]):
        try:
            code, said = run(["apt-get", *words], max(ends_at - time.monotonic(), 0.1))
        except OSError as error:
            code, said = 1, str(error)
        if code:
            raise Fault(fault, f"{package} is not there and could not be installed: {said.strip()[-200:]}")


def run(command: list[str], within_s: float) -> tuple[int, str]:
    """(exit code, output). Raises ``OSError`` if it cannot be run or takes longer."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{command[0]} took longer than {within_s:g} s") from None
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _await(look: Callable[[], bool], within_s: float) -> bool:
    ends_at = time.monotonic() + within_s
    while not look():
        if time.monotonic() >= ends_at:
            return False
        time.sleep(0.25)
    return True
