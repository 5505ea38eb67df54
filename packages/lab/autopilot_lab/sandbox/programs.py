"""The programs that a container finds on its PATH: those of the computer that the sandbox runs on, less what its image
lacks, and never a package manager: a container's own root is a directory here, so one would change the computer.
"""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

from autopilot_lab.sandbox.image_traits import PYTHONS, ImageTraits, traits_of

MANAGERS = ("apt-get", "apt", "aptitude", "dpkg", "apk", "dnf", "microdnf", "yum", "rpm", "zypper", "pacman", "snap")
UNSAFE = (
    *MANAGERS,
    *("systemctl", "service", "poweroff", "shutdown", "reboot", "halt", "init", "telinit"),
    *("useradd", "userdel", "usermod", "groupadd", "passwd", "mkfs", "fdisk", "swapoff", "modprobe", "insmod"),
    *("docker", "dockerd", "containerd", "ctr", "podman", "iptables", "ip6tables", "nft"),
)
"""Programs that change or stop the computer."""
SOCKETS = ("/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd/private", "/run/dbus/system_bus_socket")
"""By which the computer is asked to do the same."""
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MANY_IN_ONE = ("busybox", "toybox", "coreutils")
_REFUSES = """#!/bin/sh
echo "{name}: this sandbox installs nothing" >&2
exit 100
"""
_BRINGS_PYTHON = """#!/bin/sh
[ "$1" = install ] || exit 0
ln -sf '{python}' '{programs}/python3'
"""


def make_path(directory: Path, image: str) -> str:
    """PATH of a container of that image. What it names lies in ``directory``, made at the first call."""
    traits = traits_of(image)
    managers = directory / "managers" if traits == ImageTraits() else _of_image(directory, image) / "managers"
    programs = _of_image(directory, image) / "programs"
    if not managers.is_dir():
        managers.mkdir(parents=True)
        for name in MANAGERS:
            _write(managers / name, _REFUSES.format(name=name))
        if traits.brings_python:
            _write(managers / "apt-get", _BRINGS_PYTHON.format(python=sys.executable, programs=programs))
        if traits.lacks:
            programs.mkdir()
            _link_all(programs, (*traits.lacks, *MANAGERS, *PYTHONS))
            if "python*" not in traits.lacks:
                # A link would look for its library where the link lies.
                _write(programs / "python3", f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    return f"{managers}:{programs if traits.lacks else os.environ.get('PATH', os.defpath)}"


def writable_place(directory: Path, image: str) -> Path | None:
    """Where the image's package manager installs to; None: nowhere."""
    return _of_image(directory, image) if traits_of(image).brings_python else None


def cover_unsafe(directory: Path) -> dict[str, str]:
    """For machines with a root of their own: the path of a program or socket of the computer, and of what stands in its
    place. The latter lie in ``directory``, which is made.

    A program that is many in one stays: without the right to write it can change nothing.
    """
    directory.mkdir(parents=True)
    covered = {os.path.realpath(each): os.devnull for each in SOCKETS if os.path.exists(each)}
    places = dict.fromkeys(f"{os.environ.get('PATH', os.defpath)}:{_PLACES}".split(os.pathsep))
    found = (os.path.join(place, name) for place in places for name in UNSAFE)
    for real in {os.path.realpath(each) for each in found if os.path.isfile(each)}:
        name = os.path.basename(real)
        if name not in _MANY_IN_ONE:
            _write(directory / name, _REFUSES.format(name=name))
            covered[real] = str(directory / name)
    return covered


def _of_image(directory: Path, image: str) -> Path:
    return directory / sha256(image.encode()).hexdigest()[:16]


def _write(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


def _link_all(programs: Path, lacking: tuple[str, ...]) -> None:
    """The first of a name counts, as on a PATH."""
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        try:
            found = sorted(os.scandir(place), key=lambda each: each.name)
        except OSError:
            continue
        for each in found:
            here = programs / each.name
            if not here.is_symlink() and not any(fnmatch(each.name, pattern) for pattern in lacking):
                here.symlink_to(each.path)
