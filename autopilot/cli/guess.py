"""What a directory says of the job that lies in it: the command, its packages, where it saves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIKELY = ("train.py", "main.py", "run.py", "finetune.py", "fine_tune.py", "app.py", "train.sh", "run.sh")
SETUPS = (
    ("requirements.txt", "pip install -r requirements.txt"),
    ("pyproject.toml", "pip install ."),
    ("environment.yml", "conda env update -n base -f environment.yml"),
)
CACHES = {"__pycache__", "node_modules", "venv", "env", "build", "dist", "site-packages"}
MOST_FILES, MOST_BYTES = 200, 200_000

_ARGUMENT = r"(?:--|[\"']?)\b(?:{})[\"']?\s*(?:=|,\s*default\s*=|:|\s)\s*[\"']([^\"'\n$~]{{1,80}})[\"']"
_SAVES = tuple(
    (re.compile(_ARGUMENT.format(names)), source)
    for names, source in (
        (r"output[_-]dir", "Hugging Face's output_dir"),
        (r"default_root_dir|dirpath", "Lightning's directory"),
        (r"(?:checkpoint|ckpt|save)[_-](?:dir|path)", "an argument of the program"),
    )
)
_NAMED = re.compile(r"[\"']((?:[\w.-]+/)*(?:checkpoints?|ckpts?))(?:/[^\"'\n]*)?[\"']")


@dataclass(frozen=True, slots=True)
class Guess:
    """Empty: nothing was found. ``said``: a sentence for each, also for what was not found."""

    run: str
    setup: str
    checkpoint: str
    said: tuple[str, ...]


def guess(directory: Path) -> Guess:
    """Reads at most ``MOST_FILES`` programs in the directory and one below. Raises ``OSError``."""
    programs = list(_programs(directory))
    run, of_run = _run(directory, programs)
    setup, of_setup = _setup(directory)
    checkpoint, of_checkpoint = _checkpoint(programs)
    return Guess(run, setup, checkpoint, (of_run, of_setup, of_checkpoint))


def _programs(directory: Path) -> Iterator[Path]:
    found = sorted(each for pattern in ("*.py", "*/*.py", "*.sh") for each in directory.glob(pattern))
    for path in found[:MOST_FILES]:
        parents = set(path.relative_to(directory).parts[:-1])
        is_ours = not parents & CACHES and not any(part.startswith(".") for part in parents)
        if is_ours and path.is_file():
            yield path


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MOST_BYTES)


def _run(directory: Path, programs: list[Path]) -> tuple[str, str]:
    names = {path.relative_to(directory).as_posix(): path for path in programs}
    likely = next((name for likely in LIKELY for name in (likely, f"src/{likely}") if name in names), None)
    if likely is None:
        mains = [name for name, path in names.items() if path.suffix == ".py" and "__main__" in _text(path)]
        likely = mains[0] if len(mains) == 1 else None
    if likely is None:
        return "", "run: no program was found that is clearly the one to start; write its command"
    command = f"{'python' if likely.endswith('.py') else 'sh'} {likely}"
    return command, f"run: {command}, by its name"


def _setup(directory: Path) -> tuple[str, str]:
    for name, command in SETUPS:
        if (directory / name).is_file():
            return command, f"setup: {command}, for there is {name}"
    return "", "setup: none; there is no requirements.txt, pyproject.toml or environment.yml"


def _checkpoint(programs: list[Path]) -> tuple[str, str]:
    texts = [(path, _text(path)) for path in programs]
    for pattern, source in _SAVES:
        for path, text in texts:
            found = next((each[1] for each in pattern.finditer(text) if _is_inside(each[1])), None)
            if found:
                return found, f"checkpoint: {found}, {source} in {path.name}"
    for path, text in texts:
        named = next((each[1] for each in _NAMED.finditer(text) if _is_inside(each[1])), None)
        if named:
            return named, f"checkpoint: {named}, which {path.name} names"
    return "", "checkpoint: none was found; without one an interrupted job starts from the beginning"


def _is_inside(path: str) -> bool:
    """Whether it is beneath the work directory, and not the whole of it."""
    parts = path.strip().split("/")
    return not path.startswith("/") and ".." not in parts and any(part not in ("", ".") for part in parts)
