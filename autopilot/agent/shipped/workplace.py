"""The work directory between two tasks: reset to what was there before anything had run, and the inputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from .disk import read_json, write_json
from .tree import parents, roots

MOST_ENTRIES = 100000
"""In a directory of more a machine takes one task only: to look through it takes longer than to boot."""


class Workplace:
    def __init__(self, home: str) -> None:
        # They lie in the work directory where that is the disk which outlives the container.
        self.ours = {os.path.realpath(home), os.path.realpath(home) + "-job"}
        self.path = os.path.join(home, "workplace.json")

    def survey(self, workdir: str) -> bool:
        """Note what is there before anything runs: of the image, the code, the inputs and the setup.

        Returns whether it can be reset. Raises ``OSError``.
        """
        found: list[str] = []
        for at, directories, files in self.walk(workdir):
            found += [os.path.relpath(os.path.join(at, name), workdir) for name in (*directories, *files)]
            if len(found) > MOST_ENTRIES:
                return False
        write_json(self.path, found)
        return True

    def renew(self, workdir: str, inputs: Iterable[str], left_by_job: list[Any]) -> None:
        """Only what was there before is left of it, and nothing at the paths ``left_by_job`` (as ``tree.roots`` takes
        them) but directories. ``inputs``, seen from ``workdir``, stay. Raises ``OSError``.
        """
        known = set(read_json(self.path) or ())
        needed = {os.path.normpath(name) for name in inputs}
        above = {directory for name in needed for directory in parents(name)}
        left = {os.path.realpath(path) for each in left_by_job for _, path in roots(each)}
        for at, directories, files in self.walk(workdir):
            is_left = is_beneath(at, left)
            for name in [*directories, *files]:
                path = os.path.join(at, name)
                seen_from = os.path.relpath(path, workdir)
                is_directory = name in directories and not os.path.islink(path)
                if seen_from in needed or (is_directory and seen_from in above):
                    continue
                if seen_from in known and (is_directory or not (is_left or os.path.realpath(path) in left)):
                    continue
                if is_directory:
                    shutil.rmtree(path)
                else:
                    os.remove(path)
            directories[:] = [name for name in directories if os.path.isdir(os.path.join(at, name))]

    def walk(self, workdir: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """All of it but the agent's own directories."""
        for at, directories, files in os.walk(workdir):
            directories[:] = [name for name in directories if os.path.realpath(os.path.join(at, name)) not in self.ours]
            yield at, directories, files


def is_beneath(path: str, places: set[str]) -> bool:
    path = os.path.realpath(path)
    return any(path == place or path.startswith(place + "/") for place in places)
