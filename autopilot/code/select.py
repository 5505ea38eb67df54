"""Which files of a directory are sent: asked of Git, of the user's own patterns, and of the files' names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from autopilot.agent.shipped.tree import MAX_ENTRIES, ROOT, Scanned, links_inside, parents, walk
from autopilot.code import git
from autopilot.code.credentials import looks_like_credentials
from autopilot.code.size import check_size
from autopilot.code.words import quote, show_names
from autopilot.domain.errors import UserError

IGNORE_FILE = ".autopilotignore"
CACHES = (
    *(".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox", ".cache"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints", ".DS_Store"),
)
"""Where Git does not say what is ignored."""


@dataclass(frozen=True)
class Wanted:
    """What a job file says of its code."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    most_bytes: int = 500_000_000
    apart: tuple[str, ...] = ()
    """Paths or patterns beneath the directory where the machine puts something else: checkpoint, inputs."""


class Selection(NamedTuple):
    files: list[Scanned]
    """With the directories that hold them."""
    left_out: list[str]
    """The part of ``Wanted.apart`` that exists here and is not sent."""
    commit: str
    """Commit of the Git work tree, empty if there is none."""
    is_dirty: bool


def select(directory: Path, wanted: Wanted) -> Selection:
    """Raises ``UserError``: nothing is sent of a directory with something in it that must not be, or that is too large.

    The directory's files are looked at, not read.
    """
    if not directory.is_dir():
        raise UserError(f"code.path: {directory} is not a directory", hint="it is relative to the job file")
    try:
        return _select(directory.resolve(), wanted)
    except OSError as error:
        raise UserError(f"cannot list {error.filename or directory}: {error.strerror}") from None


def _select(root: Path, wanted: Wanted) -> Selection:
    has_git = git.is_work_tree(root)
    names = set(_git_files(root)) if has_git else set()
    if not has_git or (not names and git.is_ignored(root)):  # a scratch directory within somebody's repository
        has_git, names = False, set(_walk(root, CACHES))
    ignored = _spec([*_ignore_lines(root), *wanted.exclude], f"{IGNORE_FILE} or code.exclude")
    names = {name for name in names if not ignored.match_file(name)}
    left_out = []
    for place in wanted.apart:
        of_place = _spec(["/" + place], "checkpoint.path")
        there = {name for name in names if of_place.match_file(name)}
        names -= there
        left_out += [place] if there else []
    if wanted.include:
        included = _spec(wanted.include, "code.include")
        names |= {name for name in _walk(root, (".git",)) if included.match_file(name)}
    is_named = _namer(wanted.include)
    files = _scan(root, sorted(names), is_named)
    all_names = [each.entry.name.removeprefix(ROOT + "/") for each in files if each.entry.kind != "dir"]
    _refuse_credentials(root, [name for name in all_names if looks_like_credentials(name) and not is_named(name)])
    if not all_names:
        raise UserError(f"there is nothing to upload in {root}", hint="code.path names the directory of your code")
    check_size(root, [each.entry for each in files], wanted.most_bytes)
    commit, is_dirty = git.read_commit(root) if has_git else ("", False)
    return Selection(files, left_out, commit, is_dirty)


def _git_files(root: Path) -> Iterator[str]:
    for name in git.list_files(root):
        path = root / name
        if not os.path.lexists(path):
            continue  # deleted, and not yet in Git's eyes
        if not path.is_dir() or path.is_symlink():
            yield name
            continue
        inner = name.rstrip("/")
        within = _git_files(path) if os.path.lexists(path / ".git") else _walk(path, CACHES)
        yield from (f"{inner}/{each}" for each in within)


def _walk(root: Path, skipped: Sequence[str]) -> Iterator[str]:
    """Files and links; all else, like sockets and devices, has no content to send."""
    todo = [""]
    count = 0
    while todo:
        place = todo.pop()
        with os.scandir(root / place) as found:
            for each in found:
                name = place + each.name
                if each.name in skipped:
                    continue
                if each.is_dir(follow_symlinks=False):
                    todo.append(name + "/")
                elif each.is_symlink() or each.is_file():
                    yield name
                count += 1
        if count > 4 * MAX_ENTRIES:
            raise UserError(
                f"there are more than a million files in {root}", hint="code.path names the directory of your code"
            )


def _ignore_lines(root: Path) -> list[str]:
    path = root / IGNORE_FILE
    return path.read_text(errors="surrogateescape").splitlines() if path.is_file() else []


def _spec(lines: Iterable[str], where: str) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise UserError(f"{where}: {error}", hint="patterns are written as in a .gitignore") from None


def _namer(include: Sequence[str]) -> Callable[[str], bool]:
    """Whether ``include`` names that very file: a pattern that ends in a directory or in ``*`` names none."""
    exact = [pattern for pattern in include if pattern.rpartition("/")[2].strip("*")]
    whole = _spec(exact, "code.include")
    last = _spec([pattern.rpartition("/")[2] for pattern in exact], "code.include")

    def is_named(name: str) -> bool:
        return whole.match_file(name) and last.match_file(name.rpartition("/")[2])

    return is_named


def _refuse_credentials(root: Path, names: Sequence[str]) -> None:
    if names:
        first = quote(min(names))
        raise UserError(
            f"these look like credentials and would be uploaded from {root}: {show_names(names)}",
            hint=f"exclude them: exclude = [{first}] in [code], or a line in {IGNORE_FILE}; the owner of a rented "
            f"machine can read them. If the job needs them: include = [{first}]",
        )


def _scan(root: Path, names: Iterable[str], is_named: Callable[[str], bool]) -> list[Scanned]:
    """Every file and link, and the directories above. Links that lead out give way to what they lead to, if named."""
    found = {each.entry.name: each for name in names for each in walk(f"{ROOT}/{name}", str(root / name))}
    out = _links_out(found)
    _refuse_links(root, [name for name in out if not is_named(name)])
    for name in out:
        link = found.pop(f"{ROOT}/{name}")
        found.update((each.entry.name, each) for each in walk(f"{ROOT}/{name}", os.path.realpath(link.path)))
    _refuse_links(root, _links_out(found))
    above = {ROOT, *(parent for each in found for parent in parents(each))}
    for name in above - found.keys():
        path = os.path.join(root, name.removeprefix(ROOT).lstrip("/"))
        found[name] = next(walk(name, path))
    return list(found.values())


def _links_out(scanned: Mapping[str, Scanned]) -> list[str]:
    inside = links_inside(each.entry for each in scanned.values())
    return [
        name.removeprefix(ROOT + "/")
        for name, each in scanned.items()
        if each.entry.kind == "link" and name not in inside
    ]


def _refuse_links(root: Path, names: Sequence[str]) -> None:
    if names:
        first = quote(min(names))
        raise UserError(
            f"these links lead out of {root}, or are broken: {show_names(names)}",
            hint=f"exclude them: exclude = [{first}] in [code]; or upload their targets: include = [{first}]",
        )
