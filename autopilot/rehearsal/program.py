"""What is to be rehearsed: a command in a directory, or a job file with its code."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from autopilot.code.select import Wanted, select
from autopilot.config.job_file import parse_job
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.mailbox.order_shapes import Work
from autopilot.rehearsal import example
from autopilot.rehearsal.advice import recognise
from autopilot.rehearsal.course import Program
from autopilot.rehearsal.handlers import counts_on_term

WORKDIR = "/workspace"
SOURCE_BYTES, SOURCES = 200_000, 200
SHARED = "home directory, network, GPUs and installed packages are those of this computer: there is no container"
NO_SETUP = "setup was not run: it would change this computer; its packages must be installed here"


@dataclass(frozen=True, slots=True)
class CopiedCode:
    """Files of a directory, by the rules of ``[code]``."""

    directory: Path
    names: tuple[str, ...]

    def put(self, workdir: Path) -> None:
        for name in self.names:
            source, target = self.directory / name, workdir / name
            if source.is_dir() and not source.is_symlink():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)

    def read_sources(self, command: str) -> list[str]:
        """The programs that the command names, and those that these name or import; all where it names none."""
        programs = [name for name in self.names if name.endswith((".py", ".sh"))]
        texts = {
            name: (self.directory / name).read_text(errors="replace")[:SOURCE_BYTES] for name in programs[:SOURCES]
        }
        found = [name for name in texts if name in words_of(command)]
        for name in found:  # it grows meanwhile
            found += [other for other in texts if other not in found and is_used(other, texts[name])]
        return [texts[name] for name in found] or list(texts.values())


def is_used(name: str, text: str) -> bool:
    """Whether a program with this text starts or imports that one."""
    module = re.escape(name.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2])
    imported = rf"^\s*(?:from\s+[\w.]*\b{module}\b|import\s+.*\b{module}\b|from\s+[\w.]+\s+import\s+.*\b{module}\b)"
    return name in text or (name.endswith(".py") and re.search(imported, text, re.MULTILINE) is not None)


def read_command(command: tuple[str, ...], directory: Path, checkpoint: str) -> Program:
    """Raises ``UserError``."""
    require_inside(checkpoint)
    work = Work(run=shlex.join(command), workdir=WORKDIR, checkpoint_path=checkpoint, as_root=True, in_bash=True)
    return make_program(work, choose(directory, Wanted(apart=(checkpoint,))))


def read_example() -> Program:
    """The training that comes along."""
    code = CopiedCode(Path(example.__file__).parent, (Path(example.__file__).name,))
    run = shlex.join((sys.executable, *code.names))
    work = Work(run=run, workdir=WORKDIR, checkpoint_path=example.PATH, as_root=True, in_bash=True)
    return make_program(work, code)


def read_job(path: Path, checkpoint: str, now: datetime) -> Program:
    """Raises ``UserError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    spec = parse_job(text, source=str(path), now=now)
    place = checkpoint or spec.checkpoint_path or ""
    if not place:
        raise UserError(f"{path} names no checkpoint", hint='path = "ckpt" in [checkpoint], or --checkpoint PATH')
    require_inside(place)
    work = Work(
        run=spec.run,
        workdir=spec.workdir,
        env=dict(spec.env),
        checkpoint_path=place,
        progress=spec.progress or "",
        as_root=True,
        in_bash=spec.in_bash,
    )
    said = (NO_SETUP,) if spec.setup else ()
    return make_program(work, choose_code(spec, path.parent, place), *said)


def require_inside(checkpoint: str) -> None:
    """Raises ``UserError`` for a checkpoint outside of the copy: the program would write over the user's own."""
    place = PurePosixPath(checkpoint)
    if place.is_absolute() or ".." in place.parts:
        raise UserError(
            f"the checkpoint path {place} lies outside of the copied directory, so a rehearsal would write over it",
            hint="save to a path below the directory of the program, and name that by --checkpoint",
        )


def choose_code(spec: JobSpec, beside: Path, checkpoint: str) -> CopiedCode:
    if spec.code is None:
        return CopiedCode(beside, ())
    inputs = [path for path, _ in spec.inputs]
    inputs.append(checkpoint)
    wanted = Wanted(spec.code.include, spec.code.exclude, spec.code.most_bytes, tuple(inputs))
    return choose(beside / Path(spec.code.path).expanduser(), wanted)


def choose(directory: Path, wanted: Wanted) -> CopiedCode:
    root = directory.resolve()
    files = select(root, wanted).files
    return CopiedCode(root, tuple(os.path.relpath(each.path, root) for each in files if each.path != str(root)))


def make_program(work: Work, code: CopiedCode, *not_isolated: str) -> Program:
    sources = code.read_sources(work.run)
    put: Callable[[Path], None] = code.put
    outside = [word for word in words_of(work.run)[1:] if word.startswith("/")]
    said = (SHARED, *not_isolated, *(f"{word} lies outside of the directory that is copied" for word in outside))
    return Program(work, put, recognise(sources), counts_on_term(sources), said)


def words_of(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # the shell reports what is wrong with it
        return command.split()
