"""One root handler for structlog and every other logger: text in a terminal, one JSON object per line otherwise.

Lines go to stderr, which the journal keeps with its own time and unit. Tracebacks never show local variables.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from autopilot.telemetry.redaction import REDACTED, SECRET_KEYS, Scrub, scrubber

Format = Literal["auto", "console", "json"]

QUIET = ("aiohttp.access", "alembic", "apscheduler", "asyncio", "urllib3", "sqlalchemy.engine")
"""Loggers whose routine lines say nothing about the market; their warnings come through."""


def configure_logging(format: Format = "auto", level: str = "info", secrets: Collection[str] = ()) -> None:
    """Set up logging for the process; call it before any vendor SDK is imported.

    ``secrets``: values that must never be written, in any message, field or traceback.
    """
    as_json = format == "json" or (format == "auto" and not sys.stderr.isatty())
    scrub = scrubber(secrets)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _ScrubbingFormatter(
            scrub,
            foreign_pre_chain=_shared_processors(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _redaction(scrub),
                *(_as_json() if as_json else _as_text()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _as_json() -> list[Processor]:
    tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer(default=str)]


def _as_text() -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=24
        )
    ]


def _redaction(scrub: Scrub) -> Processor:
    def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        # The exception stays an object, for its renderer; what that makes of it is scrubbed as text.
        return {
            key: value if key == "exc_info" else REDACTED if key.lower() in SECRET_KEYS else scrub(value)
            for key, value in event.items()
        }

    return redact


class _ScrubbingFormatter(structlog.stdlib.ProcessorFormatter):
    """Scrubs the finished line, tracebacks included: nothing is written that has not passed here."""

    def __init__(self, scrub: Scrub, **options: Any) -> None:
        super().__init__(**options)
        self._scrub = scrub

    def format(self, record: logging.LogRecord) -> str:
        return str(self._scrub(super().format(record)))
