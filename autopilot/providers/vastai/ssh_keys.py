"""Keys that may log in on one instance, attached by the market's API."""

from __future__ import annotations

from autopilot.ports.provider import Done, RefusalCode, Refused, Unknown
from autopilot.providers import values
from autopilot.providers.reading import NoReply
from autopilot.providers.vastai import outcomes
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.pacing import Family


class VastaiKeys:
    def __init__(self, client: VastaiClient) -> None:
        self._client = client

    async def attach(self, instance_id: str, public_key: str) -> Done[None] | Refused | Unknown:
        """To the instance, never to the account: nothing else of the account is to take this key."""
        known = values.identifier(instance_id)
        if known is None:
            return Refused(RefusalCode.INVALID, f"not an instance id of this market: {instance_id!r}")
        try:
            answer = await self._client.change(Family.KEYS, "POST", f"/instances/{known}/ssh/", {"ssh_key": public_key})
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.judge_key(answer)
