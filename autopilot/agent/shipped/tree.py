"""The files of a checkpoint: what stands at its path (a file, a directory, or a pattern), named and described."""

from __future__ import annotations

import glob
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

ROOT = "checkpoint"
MAX_ENTRIES = 1000000
MAX_HOPS = 40
MAX_PATH = 4096


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
    """(name, path) of what stands there now; of several paths or patterns when it is ``[directory, *patterns]``."""
    if isinstance(path, list):
        base, *patterns = path
        matches = {match for pattern in patterns for match in glob.glob(os.path.join(base, pattern), recursive=True)}
        return beneath(base, matches)
    if not is_pattern(path):
        return [(ROOT, os.path.realpath(path))] if os.path.exists(path) else []
    return beneath(base_of(path), glob.glob(path, recursive=True))


def beneath(base: str, matches: Iterable[str]) -> list[tuple[str, str]]:
    """(name, path) of each; ``**`` matches the base itself as well, of which only what is in it counts. What it sees
    through a link to another directory of the base is saved where it stands."""
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
    links = links_of(each.entry for each in found)
    return [each for each in found if each.entry.kind != "link" or stays_inside(each.entry.name, links)]


def links_out(path: Any) -> list[str]:
    """The paths of links that no checkpoint can hold."""
    found = whole(path)
    links = links_of(each.entry for each in found)
    return [each.path for each in found if each.entry.kind == "link" and not stays_inside(each.entry.name, links)]


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
    """An absolute link to something in the checkpoint, as seen from where it stands; any other as it is."""
    depth = name.count("/")
    if not os.path.isabs(link) or not depth:
        return link
    here = os.path.realpath(os.path.dirname(path))
    top = here
    for _ in range(depth - 1):
        top = os.path.dirname(top)
    goal = os.path.join(os.path.realpath(os.path.dirname(link)), os.path.basename(link))
    return os.path.relpath(goal, here) if goal.startswith(top + "/") else link


def fingerprint(path: Any) -> list[Any] | None:
    """Equal before and after a copy if nothing moved meanwhile; None when there is nothing."""
    return [each.identity for each in scan(path)] or None


def check_entries(entries: list[Entry]) -> list[Entry]:
    """The entries of a stranger's index, if none of them leads out of the checkpoint. Raises ``Corrupt``."""
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise Corrupt("there is nothing in it")
    names: dict[str, str] = {}
    if any(len(text) > MAX_PATH for entry in entries for text in (entry.name, entry.link)):
        raise Corrupt("a path in it is too long")
    links = links_of(entries)
    for entry in entries:
        steps = entry.name.split("/")
        if steps[0] != ROOT or any(step in ("", ".", "..") for step in steps) or entry.name in names:
            raise Corrupt("a path in it leads elsewhere")
        if entry.kind not in ("file", "dir", "link"):
            raise Corrupt("it holds something that is no file")
        if entry.kind == "link" and not stays_inside(entry.name, links):
            raise Corrupt("a link in it leads elsewhere")
        names[entry.name] = entry.kind
    for name in names:
        if any(names.get(parent, "dir") != "dir" for parent in parents(name)):
            raise Corrupt("a path in it leads through a file")
    return entries


def links_of(entries: Iterable[Entry]) -> dict[str, str]:
    return {entry.name: entry.link for entry in entries if entry.kind == "link"}


def stays_inside(name: str, links: dict[str, str]) -> bool:
    """Whether the link leads to somewhere in the checkpoint, followed as a system follows it: through others too."""
    if name == ROOT:
        return False
    here, todo, hops = name.split("/")[:-1], [links[name]], 0
    while todo:
        link = todo.pop()
        if os.path.isabs(link):
            return False
        first, _, rest = link.partition("/")
        todo += [rest] if rest else []
        if first == "..":
            here.pop()
        elif first not in ("", "."):
            here.append(first)
        if not here:
            return False
        further = links.get("/".join(here))
        if further is not None and first not in ("", ".", ".."):
            here.pop()
            todo.append(further)
            hops += 1
            if hops > MAX_HOPS:
                return False
    return True


def lay_out(entries: list[Entry], directory: str) -> None:
    """Directories, and files of their size without their content."""
    for entry in entries:
        place = os.path.join(directory, entry.name)
        if entry.kind == "dir":
            os.makedirs(place, exist_ok=True)
        elif entry.kind == "file":
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.truncate(entry.size)


def finish(entries: list[Entry], directory: str) -> None:
    """Modes, times and links: last, so that nothing is written through a link."""
    for entry in reversed(entries):
        place = os.path.join(directory, entry.name)
        if entry.kind == "link":
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(entry.link, place)
        else:
            os.chmod(place, entry.mode & 0o777)
            os.utime(place, ns=(entry.mtime_ns, entry.mtime_ns))


def scratch_beside(path: str) -> str:
    """A directory on the same disk as ``path``, where what will stand there is put together."""
    return base_of(path) + "/.autopilot-restoring" if is_pattern(path) else path + ".restoring"


def swap_in(directory: str, path: str) -> None:
    """Put what was laid out in ``directory`` where the job looks for it, in the place of what stands there."""
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
