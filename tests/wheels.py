"""Wheels of this checkout: built as a release builds them, without a network, and kept under a version of their own."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from tests.locks import ROOT

LABORATORY = ROOT / "packages/lab"
"""The sources of the second distribution; the first one's are those of the whole checkout."""


def build(sources: Path, directory: Path, target: str = "wheel") -> Path:
    """The wheel or the sdist of ``sources``, in the empty ``directory``."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory.resolve())]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = directory.iterdir()
    return made


def python_beside(*built: Path, root: Path) -> Path:
    """A Python in the new directory ``root`` that has these wheels, and the libraries of the tests, but no sources."""
    venv.create(root, with_pip=False)
    (packages,) = (root / "lib").glob("python3.*/site-packages")
    for wheel in built:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    # Files there that name further directories, as that of an editable install does, are not read.
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("\n".join(libraries) + "\n")
    return root / "bin/python"


def under_version(wheel: Path, version: str, directory: Path) -> Path:
    """The same wheel as ``version``: its name, METADATA and RECORD are other ones, and its code the same bytes."""
    name, old, *tags = wheel.name.split("-")
    before, after = f"{name}-{old}.dist-info/", f"{name}-{version}.dist-info/"
    with zipfile.ZipFile(wheel) as source:
        files = [(info, source.read(info)) for info in source.infolist()]
    written: dict[str, bytes] = {}
    for info, data in files:
        if info.filename == f"{before}METADATA":
            data, replaced = re.subn(
                rb"^Version: .*$", f"Version: {version}".encode(), data, count=1, flags=re.MULTILINE
            )
            assert replaced == 1, f"{wheel.name} states no version"
        written[info.filename.replace(before, after, 1)] = data
    record = f"{after}RECORD"
    rows = [f"{path},{digest(data)},{len(data)}" for path, data in written.items() if path != record]
    written[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    made = directory / "-".join((name, version, *tags))
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for (info, _), (path, data) in zip(files, written.items(), strict=True):
            entry = zipfile.ZipInfo(path, info.date_time)
            entry.external_attr, entry.compress_type = info.external_attr, info.compress_type
            archive.writestr(entry, data)
    return made


def digest(data: bytes) -> str:
    """As RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
