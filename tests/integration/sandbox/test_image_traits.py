"""Images that lack something, as real processes: the start text finds its way on them, or says why there is none."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopilot.agent.bootstrap import onstart
from autopilot.domain.start_faults import find_fault
from autopilot.providers.runpod.create import command, with_entrypoint
from autopilot_lab.sandbox.boxes import Boxes, Launch
from autopilot_lab.sandbox.image_traits import BRINGS_PYTHON, NO_BASH, NO_PYTHON, OWN_USER, SERVED, traits_of
from autopilot_lab.sandbox.programs import MANAGERS, cover_unsafe, make_path
from autopilot_lab.sandbox.runpod import containers
from tests.patience import eventually

AGENT = b"import os, sys; print('agent in', os.environ['AUTOPILOT_STATE'], 'with', sys.argv[1], flush=True)"
ORDERS = "https://bucket.example/orders?a=1&b=2"


def start_text(directory: Path) -> str:
    (directory / "agent.pyz").write_bytes(AGENT)
    return onstart((directory / "agent.pyz").as_uri(), hashlib.sha256(AGENT).hexdigest(), ORDERS)


async def run(directory: Path, image: str, words: list[str]) -> tuple[int, str]:
    """(exit code, output) of a container of that image."""
    boxes = Boxes(directory / "boxes")
    boxes.start("1", 1, Launch(image=image, command=words, env={}))
    found: list[int] = []

    def has_ended() -> bool:
        found.extend(ended.code for ended in boxes.take_ended())
        return bool(found)

    try:
        assert await eventually(has_ended, "its end")
        return found[0], boxes.console("1").decode()
    finally:
        await boxes.close()


def look_at_computer() -> dict[str, list[str]]:
    places = (Path(place) for place in ("/usr/bin", "/etc", "/var/lib", "/var/cache"))
    return {str(place): sorted(os.listdir(place)) for place in places if place.is_dir()}


@pytest.mark.slow
@pytest.mark.parametrize("image", ["some/image:1", NO_BASH, BRINGS_PYTHON])
async def test_the_agent_starts_where_python_is_or_can_be_had(tmp_path: Path, image: str) -> None:
    code, said = await run(tmp_path, image, ["sh", "-c", start_text(tmp_path)])
    assert (code, said.splitlines()[-1]) == (0, f"agent in /var/lib/autopilot with {ORDERS}"), said


async def test_where_its_user_may_not_write_it_takes_another_place(tmp_path: Path) -> None:
    code, said = await run(tmp_path, OWN_USER, ["sh", "-c", start_text(tmp_path)])
    assert (code, said.splitlines()[-1]) == (0, f"agent in /root/.autopilot with {ORDERS}"), said


async def test_an_image_without_python_says_so_and_the_computer_is_untouched(tmp_path: Path) -> None:
    """D5. The package managers of the computer are out of its reach: none of them is called, as root or not."""
    computer = look_at_computer()
    code, said = await run(tmp_path, NO_PYTHON, ["sh", "-c", start_text(tmp_path)])
    assert code == 1
    assert find_fault(said) == "no_python", said
    assert "this sandbox installs nothing" in said, "it was tried"
    assert look_at_computer() == computer


@pytest.mark.parametrize("image", ["some/image:1", NO_PYTHON, NO_BASH])
def test_no_container_finds_a_package_manager_of_the_computer(tmp_path: Path, image: str) -> None:
    path = make_path(tmp_path, image)
    for name in MANAGERS:
        found = shutil.which(name, path=path)
        assert found is not None
        assert Path(found).is_relative_to(tmp_path)


@pytest.mark.slow
async def test_an_entrypoint_that_takes_the_command_for_its_arguments_is_replaced(tmp_path: Path) -> None:
    """D8."""
    plain = command(start_text(tmp_path))
    entrypoint = traits_of(SERVED).entrypoint
    swallowed = containers.command(plain, entrypoint)
    assert swallowed[:3] == ["python3", "-m", "server"]
    code, said = await run(tmp_path / "swallowed", SERVED, swallowed)
    assert code != 0
    assert "agent in" not in said
    code, said = await run(tmp_path / "replaced", SERVED, containers.command(with_entrypoint(plain), entrypoint))
    assert (code, said.splitlines()[-1]) == (0, f"agent in /var/lib/autopilot with {ORDERS}"), said


CHANGES = """
rm -rf {victim}
touch {victim}/new /etc/autopilot-was-here /usr/bin/autopilot-was-here /var/lib/autopilot-was-here
for each in {programs}; do "$each" install docker.io; echo "$each: $?"; done
umount / ; mount -t tmpfs none /mnt
mkdir -p "$AUTOPILOT_ROOT/var/lib" && echo mine > "$AUTOPILOT_ROOT/var/lib/file"
echo mine > "$TMPDIR/file"
"""


@pytest.fixture
def victim() -> Iterator[Path]:
    """A directory of the computer that is none for temporary files of this test."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    (directory / "file").write_text("the computer's")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def has_own_roots() -> None:
    program = "from autopilot_lab.sandbox.supervisor import take_own_root; take_own_root([], {})"
    tried = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this system permits no namespaces of mounts: {tried.stderr.splitlines()[-1]}")


@pytest.mark.usefixtures("has_own_roots")
async def test_a_machine_has_a_root_of_its_own_and_cannot_change_the_computer(tmp_path: Path, victim: Path) -> None:
    """Each program by its path: no PATH leads past it. None is called that is not covered."""
    covered = cover_unsafe(tmp_path / "covered")
    programs = [each for each in covered if Path(each).name in ("apt-get", "dpkg", "systemctl", "useradd", "docker")]
    computer = look_at_computer()
    text = CHANGES.format(victim=victim, programs=" ".join(programs))
    code, said = await run(tmp_path, "some/image:1", ["sh", "-c", text])
    assert code == 0, said
    assert (victim / "file").read_text() == "the computer's"
    assert "Read-only file system" in said
    assert look_at_computer() == computer
    for each in programs:
        assert f"{Path(each).name}: this sandbox installs nothing\n{each}: 100\n" in said
    root = tmp_path / "boxes/1/root"
    assert [(root / name).read_text() for name in ("var/lib/file", "tmp/file")] == ["mine\n", "mine\n"]
