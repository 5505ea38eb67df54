"""``autopilot new``: a commented job file for the current directory."""

from __future__ import annotations

import re
from pathlib import Path

from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.guess import Guess, guess
from autopilot.config.client_file import read_client_file
from autopilot.config.draft import DEFAULT_GPU, DEFAULT_IMAGE, Draft
from autopilot.domain.errors import UserError

FILE = "job.toml"
TO_WRITE = "python YOUR_PROGRAM.py"


def new(name: str | None = None, /) -> int:
    """Write a commented job file, job.toml, for the current directory, and show what was guessed.

    Parameters
    ----------
    name
        Name of the job; default: the directory's name.
    """
    directory = Path.cwd()
    guessed = guess(directory)
    draft = draft_of(guessed, name or name_of(directory))
    try:
        with Path(FILE).open("x", encoding="utf-8") as file:
            file.write(draft.write())
    except FileExistsError:
        raise UserError(f"{FILE} already exists", hint=f"rename it, or change it: autopilot plan {FILE}") from None
    except OSError as error:
        raise CommandError(Exit.FAILED, f"cannot write {FILE}: {error.strerror}") from None
    print(f"wrote {FILE}")
    for sentence in guessed.said:
        print(f"  {sentence}")
    print(f"next: read it, set [work] estimate and [budget], then autopilot plan {FILE}")
    return Exit.OK


def name_of(directory: Path) -> str:
    """A job's name from a directory's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", directory.name).strip("-._")[:60] or "job"


def draft_of(guessed: Guess, name: str) -> Draft:
    defaults = read_client_file()
    return Draft(
        name=name,
        run=guessed.run or TO_WRITE,
        image=defaults.image or DEFAULT_IMAGE,
        gpu=defaults.gpu or DEFAULT_GPU,
        setup=guessed.setup,
        code=".",
        budget=defaults.budget or "$10.00",
        checkpoint=guessed.checkpoint,
        notes={
            "run": "" if guessed.run else "run: write the command that starts your program.",
            "code": "What is sent to each machine: this directory, without what Git ignores.",
            "resources": 'Any of these will do: gpu = "RTX 4090 | RTX 3090:2". Of the machine: cuda = "12",\n'
            'ram = "64GB", cpus = 16, disk_speed = "500MB/s", download = "200Mbps", region = "europe" and others.',
            "work": 'estimate = "10h" in [work]: how long it takes without interruptions. A deadline needs it.',
            "deadline": 'within = "24h" in [deadline]: on-demand machines step in when only they meet it.',
            "checkpoint": "What the program saves, and resumes from after an interruption."
            if guessed.checkpoint
            else 'path = "ckpt" in [checkpoint]: what your program saves and resumes from. Without it an\n'
            "interrupted job starts from the beginning.",
            "outputs": 'paths = ["results"] in [outputs]: kept for autopilot pull once the job has succeeded.',
        },
    )
