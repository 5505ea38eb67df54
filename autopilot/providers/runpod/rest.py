"""The market through REST v2: on demand only, no balance, and it does not say which pods are spot."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from functools import partial
from typing import Any

from autopilot.domain.time import start_of_day
from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers import values
from autopilot.providers.drift.comparison import MOST_ROWS
from autopilot.providers.drift.shape import AnswerShape
from autopilot.providers.reading import NoReply
from autopilot.providers.runpod import create, outcomes, shapes, wire, wishes
from autopilot.providers.runpod.client import RunpodClient
from autopilot.providers.runpod.listing import PodListing, all_pods, read_plausible
from autopilot.providers.runpod.outcomes import Outcome
from autopilot.providers.runpod.pacing import Family

MORE_PAGES = ("nextCursor", "next_cursor", "next")
"""Fields in which a list might announce a next page. None is documented."""


class RestMarket:
    def __init__(self, client: RunpodClient) -> None:
        self._client = client

    async def sweep(self) -> PodListing:
        body = await self._client.get("/pods", shapes.REST_PODS)
        if any(body.get(name) for name in MORE_PAGES):
            raise MarketUnknown("the list of pods continues in an unknown way")
        return PodListing(all_pods(wire.rest_pod_row, body.get("pods")), None)

    async def pod(self, pod_id: str, *, may_be_others: bool = False) -> wire.PodRow | None:
        """``may_be_others``: id and name are enough of it then."""
        read = partial(wire.any_pod, wire.rest_pod_row) if may_be_others else wire.rest_pod_row
        try:
            body = await self._client.get(f"/pods/{pod_id}", shapes.REST_POD)
            row = read_plausible(read, body)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        if row.pod_id != pod_id:
            raise MarketUnknown(f"asked for pod {pod_id}, got {row.pod_id}")
        return row

    async def gpu_types(self) -> tuple[wire.GpuRow, ...]:
        rows = (wire.rest_gpu_row(row) for row in await self._catalogue(shapes.REST_GPU_TYPES, {}))
        return tuple(row for row in rows if row is not None)

    async def prices(
        self, gpu_type_ids: Collection[str], num_gpus: int, place: wishes.Place
    ) -> tuple[wire.PriceRow, ...]:
        """Prices of all GPU types: this interface cannot filter them, so it has none for a place."""
        if place.name:
            return ()
        found = []
        for cloud in wire.CLOUDS:
            wish = {"include": "AVAILABILITY", "product": "POD", "count": str(num_gpus), "cloud": cloud}
            found += [
                wire.rest_price_row(row, cloud, num_gpus) for row in await self._catalogue(shapes.REST_PRICES, wish)
            ]
        return tuple(row for row in found if row is not None and row.gpu.gpu_type_id in gpu_type_ids)

    async def _catalogue(self, shape: AnswerShape, wish: dict[str, str]) -> list[Any]:
        raw = (await self._client.get("/catalog/gpus", shape, wish)).get("gpus")
        if not isinstance(raw, list):
            raise MarketUnknown("the answer holds no list of GPU types")
        return raw

    async def rent_on_demand(self, wanted: create.PodRequest) -> Done[Created] | Refused | Unknown:
        """Without waiting for a turn: the caller is in the lane. Raises ``Withdrawn``."""
        try:
            body = create.rest_body(wanted)
        except ValueError as error:
            return Refused(RefusalCode.INVALID, str(error))
        try:
            answer = await self._client.send(
                Family.CREATE, lambda: self._client.rest("POST", "/pods", shapes.REST_POD, body=body)
            )
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.judge_rest_rental(answer)

    async def resume(self, pod: wire.PodRow) -> Outcome:
        return await self._act(pod.pod_id, "start")

    async def stop(self, pod_id: str) -> Outcome:
        return await self._act(pod_id, "stop")

    async def _act(self, pod_id: str, action: str) -> Outcome:
        body = {"action": action}
        try:
            answer = await self._client.attempt(
                Family.REST_CHANGE,
                lambda: self._client.rest("POST", f"/pods/{pod_id}/action", shapes.REST_POD, body=body),
            )
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.judge_change(answer)

    async def destroy(self, pod_id: str) -> Outcome:
        try:
            answer = await self._client.attempt(
                Family.REST_CHANGE, lambda: self._client.rest("DELETE", f"/pods/{pod_id}", shapes.REST_POD)
            )
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.judge_destroy(answer)

    async def start_log(self, pod_id: str) -> list[str]:
        """The newest lines that its host wrote about the pod, and those of our start text; none that can be read now:
        empty.
        """
        wish = {"tail": "100"}
        try:
            reply = await self._client.listen(Family.REST_READ, f"/v2/pods/{pod_id}/logs", wish)
        except NoReply:
            return []
        if reply is None or reply.status != 200:
            return []
        events = wire.log_events(reply.text)
        for event in events[:MOST_ROWS]:
            self._client.drift.look(shapes.HOST_LOG_LINE, event)
        return [line for event in events if (line := wire.start_line(event))]

    async def bills(self, since: date, until: date) -> tuple[wire.BillRow, ...]:
        """By pod and UTC day, both days included. Raises ``MarketUnknown`` when records are missing or unreadable."""
        wish = {
            "bucketSize": "day",
            "startTime": f"{start_of_day(since):%Y-%m-%dT%H:%M:%SZ}",
            "endTime": f"{start_of_day(until + timedelta(days=1)):%Y-%m-%dT%H:%M:%SZ}",
        }
        body = await self._client.get("/billing/pods", shapes.BILLS, wish)
        raw = body.get("records")
        if not isinstance(raw, list):
            raise MarketUnknown("the answer holds no list of records")
        stated = values.integer(values.mapping(body.get("metadata")).get("recordCount"))
        if stated is not None and stated != len(raw):
            raise MarketUnknown(f"the list is incomplete: {len(raw)} records of {stated}")
        return tuple(read_plausible(wire.bill_row, row) for row in raw)
