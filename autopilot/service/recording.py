"""``autopilot serve --record FILE``: each decision with all that it saw, one JSON line each, gzip-compressed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TextIO, cast

import structlog

from autopilot.domain.errors import UserError
from autopilot.policy.scene import Scene, scene_to_json

log = structlog.get_logger(__name__)


class FileRecorder:
    """Writes a new file at ``path``. When that fails it says so once and records no more.

    What was recorded is in the file at once: a daemon that is killed loses none of it.
    """

    def __init__(self, path: Path) -> None:
        """Raises ``UserError`` for a file that already exists, or cannot be made."""
        try:
            self._file: TextIO | None = cast(TextIO, gzip.open(path, "xt", encoding="utf-8"))  # noqa: SIM115
        except OSError as problem:
            # Never appended to: behind what a killed daemon left, nothing could be read.
            hint = "give --record a new file in a directory that can be written"
            raise UserError(f"cannot record to {path}: {problem.strerror}", hint=hint) from None
        self._path = path

    def record(self, scene: Scene) -> None:
        if self._file is None:
            return
        try:
            self._file.write(scene_to_json(scene) + "\n")
            self._file.flush()
        except (OSError, TypeError, ValueError) as problem:
            log.error("recording.stopped", path=str(self._path), reason=str(problem))
            self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
