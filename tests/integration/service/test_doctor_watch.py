"""What ``doctor`` says of floors that are to be recorded at all times."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.clock import SystemClock
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.prices import PRICES_EVERY, PriceObservation
from autopilot.service.doctor import check_watched
from autopilot.store.database import open_store


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "autopilot.toml"
    path.write_text(f'state_dir = "{tmp_path / "state"}"\n[history]\nwatch = ["RTX 4090:1", "H100 SXM:8"]\n')
    (tmp_path / "state").mkdir(mode=0o700)
    return load_settings(path)


async def test_how_much_is_recorded_and_from_when_on_it_counts(settings: Settings) -> None:
    began = SystemClock().now() - timedelta(minutes=1)
    store = await open_store(settings.ledger_url)
    try:
        for hours, known in ((3, "3 h"), (30, "1 d 6 h")):
            async with store.transaction() as uow:
                await uow.prices.add(
                    PriceObservation("vastai", "m1", "RTX 4090", 1, Decimal("0.3"), None, began - number * PRICES_EVERY)
                    for number in range(hours * 12)
                )
            first, second = await check_watched(settings)
            assert (first.name, first.ok) == ("watch RTX 4090:1", True)
            assert first.detail.startswith(known)
            assert ("from 4 h on" in first.detail) == (hours < 4)
            assert (second.name, second.ok, second.detail) == ("watch H100 SXM:8", None, "no floor is recorded yet")
    finally:
        await store.close()


async def test_before_the_first_start_there_is_nothing_to_say(settings: Settings) -> None:
    assert await check_watched(settings) == []
