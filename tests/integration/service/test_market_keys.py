"""A key that its owner revokes at the market: it is said, and the next one is read by the daemon that runs."""

from __future__ import annotations

import aiohttp

from tests.integration.service.service_world import a_served


async def test_a_daemon_says_that_its_key_is_refused_and_goes_by_the_next_one() -> None:
    async with a_served() as served:
        market = served.daemon.settings.markets["vastai"]
        key_file, url = market.api_key_file, f"{market.base_url}/_emu/keys"
        assert key_file is not None

        async def told() -> tuple[bool, str]:
            await served.daemon.engine.tick()
            _, status = await served.call("GET", "/v1/status")
            (shown,) = status["providers"]
            return shown["known"], shown["hint"]

        assert await told() == (True, "")
        async with aiohttp.ClientSession() as http, http.post(url, json={"keys": ["second"]}) as answer:
            assert answer.status == 200
        known, hint = await told()
        assert not known
        assert "autopilot init --force --vast-key-file FILE" in hint
        key_file.write_text("second")
        assert await told() == (True, "")
