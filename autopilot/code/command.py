"""Whether what a job runs is among the files that are sent: a program with a mistyped name costs a machine else.

Only what is sure is said: an interpreter, or nothing, before a relative path. What a shell would expand, find
elsewhere or make first is not judged.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec

_INTERPRETERS = {
    re.compile(r"python(?:3(?:\.\d+)?)?"): re.compile(r"-[uOBEsSIv]+"),
    re.compile(r"bash|sh|dash"): re.compile(r"-[eux]+"),
    re.compile(r"node|perl|ruby|Rscript|julia"): re.compile(r"(?!)"),
}
"""Each with its flags that have no value, and after which a file comes."""
_BEFORE = ("exec", "time", "nohup")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.+@%,=/-]+")
_MAKES_NO_FILE = re.compile(r"(?:#.*|(?:python3? -m )?pip3? install .*|uv (?:pip install|sync)\b.*|apt(?:-get)? .*|)")
"""Commands of ``setup`` that bring no program into the work directory."""
_NEAR = 0.75


@dataclass(frozen=True, slots=True)
class SentFiles:
    """``names``: of all that is sent, beneath the work directory. ``root``: where it lies here."""

    names: Collection[str]
    root: Path


def check_command(spec: JobSpec, sent: SentFiles) -> list[str]:
    """What to say of programs that are not sent.

    Raises ``UserError`` where the first command of ``run`` is one, nothing before could have made it, and a file here
    is clearly meant.
    """
    notes = []
    for number, path in enumerate(_list_programs(spec.run)):
        if path is None or _is_there(path, spec, sent):
            continue
        reason, is_meant = _explain(path, sent)
        said = f"run: {path} is not among the files that [code] sends{reason}"
        if number == 0 and is_meant and _makes_no_file(spec.setup):
            whole = PurePosixPath(spec.workdir, path)
            raise UserError(said, hint=f"correct it; or, if the image has it, write its whole path: {whole}")
        notes.append(said)
    return list(dict.fromkeys(notes))


def _makes_no_file(setup: str) -> bool:
    return all(_MAKES_NO_FILE.fullmatch(each.strip()) for each in re.split(r"[\n;]|&&", setup))


def _is_there(path: str, spec: JobSpec, sent: SentFiles) -> bool:
    """Or may be there: an input may be a directory, and a link may lead to one."""
    parts = [path, *map(str, PurePosixPath(path).parents)][:-1]
    brought = {str(PurePosixPath(place)) for place, _ in spec.inputs}
    if spec.checkpoint_path:
        brought.add(str(PurePosixPath(spec.checkpoint_path)))
    return path in sent.names or any(part in brought or (sent.root / part).is_symlink() for part in parts)


def _explain(path: str, sent: SentFiles) -> tuple[str, bool]:
    """Why it may be missing, and whether a file here is clearly meant."""
    if (sent.root / path).is_file():
        return ": it lies here and is left out, as Git or a pattern ignores it; code.include brings it", True
    near = difflib.get_close_matches(path, sent.names, n=1, cutoff=_NEAR)
    if near and PurePosixPath(near[0]).suffix == PurePosixPath(path).suffix:
        return f"; the nearest is {near[0]}", True
    return "", False


def _list_programs(script: str) -> Iterator[str | None]:
    """Of each simple command the path that it runs, beneath the work directory; None: it is not judged.

    Ends where the work directory changes, or at what only a shell can read.
    """
    for command in _split(script):
        words = [word for word in command if not _ASSIGNMENT.fullmatch(word)]
        while words and words[0] in _BEFORE:
            words.pop(0)
        if words and words[0] in ("cd", "pushd", "source", ".", "if", "for", "while", "case", "{", "("):
            return
        yield _program_of(words)


def _program_of(words: list[str]) -> str | None:
    if not words:
        return None
    flags = next((flags for name, flags in _INTERPRETERS.items() if name.fullmatch(words[0])), None)
    if flags is None:
        path = words[0] if "/" in words[0] else ""
    else:
        path = next((word for word in words[1:] if not flags.fullmatch(word)), "")
    if not path or path.startswith(("-", "/")) or not _PLAIN_PATH.fullmatch(path):
        return None
    pure = PurePosixPath(path)
    return None if ".." in pure.parts or str(pure) == "." else str(pure)


def _split(script: str) -> Iterator[list[str]]:
    """The words of each command that nothing is redirected into; what cannot be read ends it."""
    for line in script.replace("\\\n", " ").splitlines():
        reader = shlex.shlex(line, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        try:
            words = list(reader)
        except ValueError:
            return
        command: list[str] = []
        for word in words:
            if set(word) <= set(";&|()<>"):
                yield command
                command = []
                if set(word) & set("()<"):
                    return
            else:
                command.append(word)
        if command:
            yield command
