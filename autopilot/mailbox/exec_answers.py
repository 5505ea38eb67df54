"""What a machine answers to a user's command. It is a claim, only for the user who asked."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Literal

from autopilot.mailbox.wire import VERSION

MAX_OUTPUT_BYTES = 1_000_000
MAX_ANSWER_BYTES = 1_400_000
"""With the output in base64."""

Ended = Literal["exited", "timed_out", "stopped"]
"""``stopped``: the machine had no longer to run the job."""


@dataclass(frozen=True)
class ExecAnswer:
    """``exit_code`` as a shell gives it, 0 to 255; ``is_cut``: there was more output than an answer may hold."""

    exit_code: int
    output: bytes
    is_cut: bool
    ended: Ended

    def to_json(self, call_id: str) -> bytes:
        output = base64.b64encode(self.output).decode()
        body = {"exit_code": self.exit_code, "output": output, "is_cut": self.is_cut, "ended": self.ended}
        return json.dumps({"v": VERSION, "id": call_id, **body}).encode()


def parse_exec_answer(data: bytes, call_id: str) -> ExecAnswer | None:
    """None for anything but an answer to that call, of exactly this shape."""
    if len(data) > MAX_ANSWER_BYTES:
        return None
    try:
        body = json.loads(data)
        output = base64.b64decode(body["output"], validate=True)
        code, is_cut, ended = body["exit_code"], body["is_cut"], body["ended"]
        is_whole = body["v"] == VERSION and body["id"] == call_id and len(output) <= MAX_OUTPUT_BYTES
        is_whole = is_whole and type(code) is int and 0 <= code <= 255 and type(is_cut) is bool
        is_whole = is_whole and ended in ("exited", "timed_out", "stopped")
        return ExecAnswer(code, output, is_cut, ended) if is_whole else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
