"""``autopilot serve --record FILE``: each decision with all that it saw, one JSON line each, gzip-compressed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TextIO, cast

import structlog

from autopilot.domain.errors import UserError
from autopilot.ports.recording import Scene, scene_to_json

log = structlog.get_logger(__name__)


class FileRecorder:
    """Appends to ``path``. When that fails it says so once and records no more."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: TextIO | None = cast(TextIO, gzip.open(path, "at", encoding="utf-8"))
        except OSError as problem:
            raise UserError(f"cannot record to {path}: {problem.strerror}", hint="give --record a writable file") from None
        self._path = path

    def record(self, scene: Scene) -> None:
        if self._file is None:
            return
        try:
            self._file.write(scene_to_json(scene) + "\n")
        except OSError as problem:
            log.error("recording.stopped", path=str(self._path), reason=problem.strerror)
            self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
