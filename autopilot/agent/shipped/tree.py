"""The files of a checkpoint: what is at its path (a file, a directory, or a pattern), named and described."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

ROOT = "checkpoint"
MAX_ENTRIES = 250000
MAX_STEPS = 4 * MAX_ENTRIES
"""Steps that all paths and links of one checkpoint may have, common beginnings counted once."""
MAX_HOPS = 40
MAX_PATH = 3800
"""In bytes: with the place where a checkpoint is put together, paths stay below what systems take."""
MAX_LINK = 4095
MAX_STEP = 255
MAX_TIME_NS = 1 << 62
OWN_FAULTS = {
    *(errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EFBIG, errno.EOVERFLOW),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP),
}
"""What a system says when a checkpoint cannot be laid out anywhere; a full or broken disk says something else."""


class Corrupt(Exception):
    """A checkpoint is not what its manifest says."""


class Entry(NamedTuple):
    """``name`` is ``checkpoint`` or a path beneath it; ``kind`` is file, dir or link."""

    name: str
    kind: str
    mode: int
    mtime_ns: int
    size: int = 0
    link: str = ""


class Scanned(NamedTuple):
    entry: Entry
    path: str
    identity: list[Any]
    """Changes whenever the content may have changed."""


def is_pattern(path: str) -> bool:
    return glob.has_magic(path)


def base_of(pattern: str) -> str:
    """The directory beneath which everything that can match lies."""
    steps = pattern.split("/")
    plain = next(i for i, step in enumerate(steps) if glob.has_magic(step))
    return "/".join(steps[:plain]) or "/"


def roots(path: Any) -> list[tuple[str, str]]:
    """(name, path) of what is there now; of several paths or patterns when it is ``[directory, *patterns]``."""
    if isinstance(path, list):
        base, *patterns = path
        matches = {match for pattern in patterns for match in glob.glob(os.path.join(base, pattern), recursive=True)}
        return beneath(base, matches)
    if not is_pattern(path):
        return [(ROOT, os.path.realpath(path))] if os.path.exists(path) else []
    return beneath(base_of(path), glob.glob(path, recursive=True))


def beneath(base: str, matches: Iterable[str]) -> list[tuple[str, str]]:
    """(name, path) of each; ``**`` matches the base itself as well, of which only what is in it counts. What it sees
    through a link to another directory of the base is saved in its own place."""
    top = os.path.realpath(base)
    named = {os.path.relpath(match, base): match for match in sorted(matches)}
    links = {
        name
        for name, match in named.items()
        if os.path.islink(match) and os.path.realpath(match).startswith(top.rstrip("/") + "/")
    }
    return [
        (ROOT + "/" + name, match)
        for name, match in named.items()
        if name != "." and not any(parent in links for parent in parents(name))
    ]


def parents(name: str) -> Iterator[str]:
    at = name.find("/")
    while at >= 0:
        yield name[:at]
        at = name.find("/", at + 1)


def scan(path: Any) -> list[Scanned]:
    """Everything beneath, always in the same order; nothing twice. Raises ``OSError`` when it moves meanwhile.

    Links that lead out of it are left out: no other machine has what they point to (``links_out``).
    """
    found = whole(path)
    inside = links_inside(each.entry for each in found)
    return [each for each in found if each.entry.kind != "link" or each.entry.name in inside]


def links_out(path: Any) -> list[str]:
    """The paths of links that no checkpoint can hold."""
    found = whole(path)
    inside = links_inside(each.entry for each in found)
    return [each.path for each in found if each.entry.kind == "link" and each.entry.name not in inside]


def whole(path: Any) -> list[Scanned]:
    found: dict[str, Scanned] = {}
    for name, root in roots(path):
        for each in walk(name, root):
            found[each.entry.name] = each
    return list(found.values())


def walk(name: str, path: str) -> Iterator[Scanned]:
    info = os.lstat(path)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        link = portable(os.readlink(path), name, path)
        yield Scanned(Entry(name, "link", mode, info.st_mtime_ns, link=link), path, [name, link])
    elif stat.S_ISREG(info.st_mode):
        entry = Entry(name, "file", mode, info.st_mtime_ns, info.st_size)
        yield Scanned(entry, path, [name, mode, info.st_ino, info.st_size, info.st_mtime_ns])
    elif stat.S_ISDIR(info.st_mode):
        yield Scanned(Entry(name, "dir", mode, info.st_mtime_ns), path, [name, mode])
        for step in sorted(os.listdir(path)):
            yield from walk(name + "/" + step, os.path.join(path, step))


def portable(link: str, name: str, path: str) -> str:
    """An absolute link into the checkpoint, relative to its own place; any other as it is."""
    depth = name.count("/")
    if not os.path.isabs(link) or not depth:
        return link
    here = os.path.realpath(os.path.dirname(path))
    top = here
    for _ in range(depth - 1):
        top = os.path.dirname(top)
    goal = os.path.join(os.path.realpath(os.path.dirname(link)), os.path.basename(link))
    return os.path.relpath(goal, here) if goal.startswith(top + "/") else link


def real_paths(paths: Iterable[str]) -> dict[str, str]:
    """Each path with the links on the way resolved. The file at the path is no link itself."""
    found, real = {}, {}
    for path in paths:
        directory, name = os.path.split(path)
        if directory not in real:
            real[directory] = os.path.realpath(directory)
        found[os.path.join(real[directory], name)] = path
    return found


def fingerprint(path: Any) -> list[Any] | None:
    """Equal before and after a copy if nothing moved meanwhile; None when there is nothing."""
    return [each.identity for each in scan(path)] or None


def check_entries(entries: list[Entry]) -> list[Entry]:
    """The entries of an untrusted index, if none of them leads out of the checkpoint. Raises ``Corrupt``.

    Takes time in proportion to their length, even for hostile ones.
    """
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise Corrupt("there is nothing in it, or there are too many files")
    paths, kinds = Paths(MAX_STEPS), {}
    for entry in entries:
        check_text(entry.name, MAX_PATH)
        check_text(entry.link, MAX_LINK)
        steps = entry.name.split("/")
        if steps[0] != ROOT or any(step in ("", ".", "..") for step in steps):
            raise Corrupt("a path in it leads elsewhere")
        if entry.kind not in ("file", "dir", "link"):
            raise Corrupt("it holds something that is no file")
        place = paths.find(entry.name)
        if place in kinds:
            raise Corrupt("a path in it is there twice")
        kinds[place] = entry.kind
    if any(kinds.get(above, "dir") != "dir" for above, _ in paths.steps):
        raise Corrupt("a path in it leads through a file")
    inside = links_inside(entries, paths)
    if any(entry.kind == "link" and entry.name not in inside for entry in entries):
        raise Corrupt("a link in it leads elsewhere")
    return entries


def check_text(text: str, most: int) -> None:
    """Raises ``Corrupt`` for what no file can be called. Bytes that are not UTF-8 come as Python writes them."""
    if len(text) > most:
        raise Corrupt("a path in it is too long")
    try:
        name = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Corrupt("a path in it is not text") from error
    if b"\0" in name:
        raise Corrupt("a path in it is not text")
    if len(name) > most or any(len(step) > MAX_STEP for step in name.split(b"/")):
        raise Corrupt("a path in it is too long")


class Paths:
    """Places by number, so that a step costs the same however long the path is. ``OUTSIDE`` holds the checkpoint."""

    OUTSIDE = 0

    def __init__(self, most: int = 0) -> None:
        """``most``: steps of a stranger's paths; 0: they are our own."""
        self.most = most
        self.steps: dict[tuple[int, str], int] = {}
        self.above = [self.OUTSIDE]
        self.links: dict[int, str] = {}
        self.goals: dict[int, Any] = {}  # of each link that was followed: (place, links on the way), None: elsewhere

    def find(self, name: str) -> int:
        place = self.OUTSIDE
        for step in name.split("/"):
            place = self.step(place, step)
        return place

    def step(self, place: int, step: str) -> int:
        if step in ("", "."):
            return place
        if step == "..":
            return self.above[place]
        found = self.steps.get((place, step))
        if found is None:
            if self.most and len(self.above) > self.most:
                raise Corrupt("there are too many directories in it")
            found = self.steps[place, step] = len(self.above)
            self.above.append(place)
        return found

    def stays_inside(self, link: int) -> bool:
        """Whether it leads to somewhere in the checkpoint, followed as a system follows it: through others too.

        Each link is followed once: where it leads is kept. If one leads elsewhere, so do all that lead through it.
        """
        trail = [] if link in self.goals else [self.begin(link)]
        while trail:
            at, here, hops, todo = trail[-1]
            if here == self.OUTSIDE or hops > MAX_HOPS or self.links[at].startswith("/"):
                break
            if not todo:
                self.goals[at] = here, hops
                trail.pop()
                continue
            place = self.step(here, todo[-1])
            if todo[-1] not in ("", ".", "..") and place in self.links:
                if place not in self.goals:
                    trail.append(self.begin(place))
                    continue
                if self.goals[place] is None:  # elsewhere, or in a circle
                    break
                place, more = self.goals[place]
                hops += more
            todo.pop()
            trail[-1] = at, place, hops, todo
        return self.goals[link] is not None

    def begin(self, link: int) -> tuple[int, int, int, list[str]]:
        """(the link, its directory, links followed, steps to go in reverse)."""
        self.goals[link] = None
        return link, self.above[link], 1, self.links[link].split("/")[::-1]


def links_inside(entries: Iterable[Entry], paths: Paths | None = None) -> set[str]:
    """The names of the links that lead to somewhere in the checkpoint."""
    paths = paths or Paths()
    places = {entry.name: (paths.find(entry.name), entry.link) for entry in entries if entry.kind == "link"}
    paths.links = dict(places.values())
    return {name for name, (place, link) in places.items() if link and paths.stays_inside(place)}


@contextlib.contextmanager
def unpacking() -> Iterator[None]:
    """A fault of the checkpoint's own is ``Corrupt``: it would be the same on any other disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in OWN_FAULTS:
            raise
        raise Corrupt(f"it cannot be laid out: {error.strerror}") from error
    except (ValueError, OverflowError, TypeError) as error:
        raise Corrupt(f"it cannot be laid out: {error}") from error


@unpacking()
def lay_out(entries: list[Entry], directory: str) -> None:
    """Directories, and files of their size without their content. Raises ``Corrupt``, ``OSError``."""
    for entry in entries:
        place = os.path.join(directory, entry.name)
        if entry.kind == "dir":
            os.makedirs(place, exist_ok=True)
        elif entry.kind == "file":
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "xb") as file:
                file.truncate(entry.size)


@unpacking()
def finish(entries: list[Entry], directory: str, mode_of: Callable[[Entry], int] = lambda entry: entry.mode) -> None:
    """Modes, times and links: last, so that nothing is written through a link. What lies deepest comes first, so that
    no directory is shut before what is in it. Raises ``Corrupt``, ``OSError``."""
    for entry in sorted(entries, key=lambda entry: -entry.name.count("/")):
        place = os.path.join(directory, entry.name)
        if entry.kind == "link":
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(entry.link, place)
        else:
            os.chmod(place, mode_of(entry) & 0o777)
            time_ns = min(max(entry.mtime_ns, 0), MAX_TIME_NS)
            os.utime(place, ns=(time_ns, time_ns))


def scratch_beside(path: str) -> str:
    """A directory on the same disk as ``path``, where what will stand there is put together."""
    return base_of(path) + "/.autopilot-restoring" if is_pattern(path) else path + ".restoring"


def swap_in(directory: str, path: str) -> None:
    """Move what was laid out in ``directory`` to where the job looks for it, replacing what is there."""
    source = os.path.join(directory, ROOT)
    if not is_pattern(path):
        remove(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(source, path)
        return
    for _, old in roots(path):
        remove(old)
    merge(source, base_of(path))


def merge(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    for step in sorted(os.listdir(source)):
        old, new = os.path.join(target, step), os.path.join(source, step)
        if os.path.isdir(new) and os.path.isdir(old) and not os.path.islink(old) and not os.path.islink(new):
            merge(new, old)
        else:
            remove(old)
            os.replace(new, old)


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.remove(path)
