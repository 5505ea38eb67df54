"""A job file that is written for the user: what is known of the job, as commented TOML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

DEFAULT_IMAGE = "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime"
"""With neither --image nor [defaults] image of the client's file."""
DEFAULT_GPU = "RTX 4090"
HEAD = "What every key means: docs/reference/job-file.md. Check it with: autopilot plan {file}"


Value = str | int | Decimal | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """Values as they stand in a job file; empty: the key is left out. ``notes``: section → what to say of it."""

    name: str
    run: str
    image: str = DEFAULT_IMAGE
    gpu: str = DEFAULT_GPU
    setup: str = ""
    code: str = ""
    code_exclude: tuple[str, ...] = ()
    disk: str = ""
    host: Mapping[str, Value] = field(default_factory=dict)
    """Keys of ``[resources]`` about the machine around the GPUs."""
    estimate: str = ""
    within: str = ""
    budget: str = ""
    checkpoint: str = ""
    outputs: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def write(self, file: str = "job.toml") -> str:
        """The job file."""
        parts = [
            _section(
                "",
                {"name": self.name, "image": self.image, "setup": self.setup, "run": self.run},
                [HEAD.format(file=file), self.notes.get("run", "")],
            ),
            _section("code", {"path": self.code, "exclude": self.code_exclude}, [self.notes.get("code", "")]),
            _section("env", self.env),
            _section("secrets", self.secrets),
            _section("resources", {"gpu": self.gpu, "disk": self.disk, **self.host}, [self.notes.get("resources", "")]),
            _section("work", {"estimate": self.estimate}, [self.notes.get("work", "")]),
            _section("deadline", {"within": self.within}, [self.notes.get("deadline", "")]),
            _section("budget", {"total": self.budget}, [self.notes.get("budget", "")]),
            _section("checkpoint", {"path": self.checkpoint}, [self.notes.get("checkpoint", "")]),
            _section("outputs", {"paths": self.outputs}, [self.notes.get("outputs", "")]),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"


def _section(name: str, values: Mapping[str, Value], notes: Iterable[str] = ()) -> str:
    """Nothing for a section of which there is nothing to say; one with a note alone is all comment."""
    said = [f"# {line}" for note in notes if note for line in note.splitlines()]
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if value]
    head = [f"[{name}]"] if name and lines else []
    return "\n".join([*said, *head, *lines])


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _value(name)


def _value(value: Value) -> str:
    """As TOML: its strings are those of JSON but for one character."""
    if isinstance(value, (int, Decimal)):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
