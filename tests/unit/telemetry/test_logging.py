"""What the log writes, and what it must never write."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from autopilot.telemetry.logging import QUIET, configure_logging
from autopilot.telemetry.redaction import REDACTED, SECRET_KEYS, scrubber
from tests.patience import PATIENCE_S

SENTINEL = "s3ntinel+key/with=odd&chars-0123456789"


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    kept = root.handlers[:]
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, QUIET))}
    yield
    root.handlers[:] = kept
    for logger, level in levels.items():
        logger.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("format", ["console", "json"])
def test_a_secret_appears_nowhere(capsys: pytest.CaptureFixture[str], format: Literal["console", "json"]) -> None:
    configure_logging(format, "debug", [SENTINEL])
    log = structlog.get_logger("autopilot.test")

    class Carrier:
        def __repr__(self) -> str:
            return f"Carrier({SENTINEL})"

    basic = base64.b64encode(f"user:{SENTINEL}".encode()).decode()
    structlog.contextvars.bind_contextvars(bound=SENTINEL)
    log.info(f"request.sent {SENTINEL}", key=SENTINEL, nested={"list": [SENTINEL, {"deep": Carrier()}]})
    log.info("request.sent", header=f"Basic {basic}", url=f"https://host/?k={quote(SENTINEL, safe='')}")
    log.info("bytes.sent", body=SENTINEL.encode(), **{SENTINEL: 1})
    logging.getLogger("vastai").warning("GET %s", f"https://host/?api_key={SENTINEL}", extra={"header": SENTINEL})
    local = SENTINEL
    try:
        try:
            raise ValueError(f"bad key {local}")
        except ValueError as error:
            raise RuntimeError("outer") from error
    except RuntimeError:
        log.exception("boom")
        logging.getLogger("somebody").exception("foreign %r", local)
    structlog.contextvars.clear_contextvars()

    written = capsys.readouterr().err
    assert written.count(REDACTED) >= 10
    assert "ValueError" in written
    for form in (SENTINEL, quote(SENTINEL, safe=""), basic[8:-4]):
        assert form not in written


def test_fields_with_secret_names_are_always_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json", "info")
    structlog.get_logger().info("row.read", row={key: "hush" for key in SECRET_KEYS}, Authorization="hush", kept=1)
    logging.getLogger("foreign").info("row", extra={"onstart": "hush"})
    written = capsys.readouterr().err
    assert "hush" not in written
    assert json.loads(written.splitlines()[0])["kept"] == 1


def test_tracebacks_show_no_local_variables(capsys: pytest.CaptureFixture[str]) -> None:
    for format in ("console", "json"):
        configure_logging(format, "info")
        hidden = "local" + "-value"
        try:
            raise KeyError("missing")
        except KeyError:
            structlog.get_logger().exception("boom")
        written = capsys.readouterr().err
        assert hidden not in written
        assert "missing" in written


def test_json_is_one_object_per_line_and_money_keeps_its_digits(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("auto", "info")
    structlog.get_logger("autopilot.engine").info("bid.raised", bid=Decimal("0.310"), lines="a\nb")
    logging.getLogger("apscheduler").info("routine")
    logging.getLogger("apscheduler").warning("late")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert first["event"] == "bid.raised"
    assert first["bid"] == "0.310"
    assert first["level"] == "info"
    assert first["logger"] == "autopilot.engine"
    assert first["timestamp"].endswith("Z")
    assert second["event"] == "late"


def test_the_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json", "warning")
    structlog.get_logger().info("quiet")
    logging.getLogger("x").info("quiet")
    structlog.get_logger().warning("loud")
    written = capsys.readouterr().err
    assert "quiet" not in written
    assert "loud" in written


@pytest.mark.slow
def test_a_connected_sdk_has_no_handler_of_its_own() -> None:
    pytest.importorskip("vastai")
    script = (
        "from autopilot.telemetry.logging import QUIET, configure_logging as c; c('json', 'info', ['hunter2hunter2']);"
        "from autopilot.providers.vastai.sdk import Sdk; Sdk('key', 'http://127.0.0.1:9', 1);"
        "import logging; logging.getLogger('vastai').warning('key hunter2hunter2');"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    lines = done.stderr.splitlines()
    assert [json.loads(line)["event"] for line in lines] == [f"key {REDACTED}"]
    assert done.stdout == ""


@given(secret=st.text(min_size=12, max_size=40), before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_base64_and_percent_forms_are_found_at_any_alignment(secret: str, before: bytes, after: bytes) -> None:
    scrub = scrubber([secret])
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    assert REDACTED in scrub(encoded)
    assert REDACTED in scrub(f"https://host/?key={quote(secret, safe='')}&x=1")
    assert secret not in scrub({"a": [f"-{secret}-", (secret,)]})["a"][0]


def test_scrubbing_survives_hostile_values() -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no")

    loop: list[object] = []
    loop.append(loop)
    assert "Bad" in scrubber([])(Bad())
    assert REDACTED in repr(scrubber([])(loop))
    assert scrubber([""])("untouched") == "untouched"
