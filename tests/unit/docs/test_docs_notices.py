"""The pages about notices: every kind, key and service is listed there, and the settings shown can be loaded."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.config.notices import _KEYS_OF, NoticesSettings, PingSettings, SinkSettings
from autopilot.engine.conditions import AGAIN_AFTER, NEAR_BUDGET, UNREAD_FOR
from autopilot.engine.history import NOTICES_KEPT_FOR
from autopilot.notices import mail, services, web
from autopilot.notices.courier import DIGEST_FROM, FIRST_RETRY, LONGEST_RETRY, MOST_IN_DIGEST
from autopilot.notices.kinds import BY_DEFAULT, NAMES
from autopilot.ports.store.notices import MOST_WAITING

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "how-to/get-notices.md").read_text()
REFERENCE = (DOCS / "reference/settings.md").read_text().split("## Sinks of notices\n")[1]


def test_every_kind_is_listed_and_whether_it_is_on() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| ", PAGE, re.MULTILINE)
    assert rows == [(name, "yes" if name in BY_DEFAULT else "no") for name in NAMES]


def test_every_service_is_named() -> None:
    missing = [name for name in services.SERVICES.values() if name not in PAGE]
    assert missing == []


def test_every_key_of_a_sink_is_documented_with_the_types_that_take_it() -> None:
    sinks, pings = REFERENCE.split("[notices.ping]")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \| ", sinks, re.MULTILINE))
    assert set(rows) == set(SinkSettings.model_fields)
    for key, types in rows.items():
        taken_by = [name for name, keys in _KEYS_OF.items() if key in keys]
        assert types == (", ".join(taken_by) or "all"), key
    assert set(re.findall(r"^\| `(\w+)` \| ", pings, re.MULTILINE)) == set(PingSettings.model_fields)


def test_the_settings_shown_are_settings() -> None:
    shown = [tomllib.loads(text) for text in re.findall(r"```toml\n(\[notices.*?)```", PAGE, re.DOTALL)]
    assert len(shown) == 4
    for each in shown:
        NoticesSettings(**each["notices"])


def test_the_numbers_are_the_code_s() -> None:
    assert (FIRST_RETRY.seconds, LONGEST_RETRY.seconds, NOTICES_KEPT_FOR.days) == (15, 15 * 60, 3)
    assert (MOST_WAITING, DIGEST_FROM, MOST_IN_DIGEST) == (1000, 5, 50)
    assert (web.WAIT_REAL_S, mail.WAIT_REAL_S, services.WAIT_REAL_S) == (15, 30, 30)
    assert (AGAIN_AFTER.seconds, UNREAD_FOR.seconds, NEAR_BUDGET * 5) == (6 * 3600, 300, Decimal(4))
    assert PingSettings(url="https://example.org").every == 20


@pytest.mark.parametrize(
    "words", ["15 seconds for webhooks, 30 for mail and services", "up to 15 minutes", "At most 1,000 wait"]
)
def test_and_stand_on_the_page(words: str) -> None:
    assert words in " ".join(PAGE.split())
