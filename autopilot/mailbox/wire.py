"""How objects of the mailbox are written, and how large they may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

VERSION = 1

MAX_OBJECT_BYTES = 1_000_000

MAX_INDEX_BYTES = 16 << 20
"""Limit for the first part of a checkpoint, which lists the files in the others."""

MAX_PARTS = 2_000
"""Limit for one manifest."""

MAX_PART_NUMBER = 999_999
"""The highest that a part's key may have. A checkpoint gives none twice, so tries that were cut off use them up."""

MAX_GPUS = 16
"""GPUs of one machine that its agent may report."""

MAX_TEXT = 500

RUN_AGAIN = "run_again"
"""An agent that says so in its heartbeats takes orders with a new run epoch after an exit."""
NEXT_TASK = "next_task"
"""One that says so takes orders for another task of the same array after an exit."""
EXEC = "exec"
"""One that says so runs the commands that its orders bring beside the job."""
EXIT_HERE = "exit_here"
"""The heartbeats of one that says so hold its exit record: it writes none elsewhere."""
ABILITIES = (RUN_AGAIN, NEXT_TASK, EXEC, EXIT_HERE)

SSH_KEY_VARIABLE = "AUTOPILOT_SSH_KEY"
"""Variable of the machine's environment: the public key that its agent accepts."""
SSH_PORT = 70_022
"""Asked for with the create. There is no such port: for one above 65,535 both markets choose one that is the same
inside and outside, and name it in the machine's environment."""


KEYS = {
    "number": "n",
    "last_checkpoint": "last_ckpt_n",
    "next_checkpoint": "next_ckpt_n",
    "next_log": "next_log_n",
}
"""Fields of the shapes that have another name in the JSON."""


def dump(shape: object) -> bytes:
    """The JSON of one of the shapes, with its version."""

    def body(value: Any) -> dict[str, Any]:
        return {KEYS.get(field.name, field.name): getattr(value, field.name) for field in fields(value)}

    def plain(value: Any) -> dict[str, Any]:
        return dict(value) if isinstance(value, Mapping) else body(value)

    return json.dumps({"v": VERSION, **body(shape)}, default=plain, allow_nan=False).encode()
