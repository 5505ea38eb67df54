"""The market through GraphQL: all that REST does, and spot and the balance besides, until it is withdrawn.

Every method raises ``Withdrawn`` once the market answers 410; the request was not carried out then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from autopilot.domain.host import HostNeeds
from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers import values
from autopilot.providers.drift.shape import AnswerShape
from autopilot.providers.reading import READ_TRIES, NoReply
from autopilot.providers.runpod import create, mapping, outcomes, queries, shapes, wire, wishes
from autopilot.providers.runpod.client import RunpodClient
from autopilot.providers.runpod.listing import PodListing, all_pods, read_plausible
from autopilot.providers.runpod.outcomes import Outcome, Withdrawn
from autopilot.providers.runpod.pacing import Family
from autopilot.providers.runpod.reply import Answer
from autopilot.providers.runpod.sdk import SdkRefused


class GraphqlMarket:
    def __init__(self, client: RunpodClient) -> None:
        self._client = client

    async def sweep(self) -> PodListing:
        myself = values.mapping((await self._client.query(queries.SWEEP, shapes.SWEEP)).get("myself"))
        return PodListing(all_pods(wire.pod_row, myself.get("pods")), _credit(myself))

    async def credit(self) -> Decimal:
        return _credit(values.mapping((await self._client.query(queries.BALANCE, shapes.BALANCE)).get("myself")))

    async def pod(self, pod_id: str, *, may_be_others: bool = False, tries: int = READ_TRIES) -> wire.PodRow | None:
        """``may_be_others``: id and name are enough of it then."""
        try:
            data = await self._client.query(queries.POD, shapes.ONE_POD, {"podId": pod_id}, tries=tries)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        if "pod" not in data:
            raise MarketUnknown("the answer does not speak of the pod")
        if data["pod"] is None:
            return None
        read = partial(wire.any_pod, wire.pod_row) if may_be_others else wire.pod_row
        row = read_plausible(read, data["pod"])
        if row.pod_id != pod_id:
            raise MarketUnknown(f"asked for pod {pod_id}, got {row.pod_id}")
        return row

    async def gpu_types(self) -> tuple[wire.GpuRow, ...]:
        try:
            raw = await self._client.by_sdk(Family.GRAPHQL_READ, self._client.transport.gpu_types)
        except SdkRefused as error:
            raise MarketUnknown(str(error), outcomes.CODES.get(error.fault)) from error
        except NoReply as error:
            raise MarketUnknown(str(error)) from error
        if not isinstance(raw, list):
            raise MarketUnknown("the answer holds no list of GPU types")
        self._client.drift.look(shapes.GPU_TYPES, {"gpuTypes": raw})
        rows = (wire.gpu_row(row) for row in raw)
        return tuple(row for row in rows if row is not None)

    async def prices(
        self, gpu_type_ids: Collection[str], num_gpus: int, needs: HostNeeds, place: wishes.Place
    ) -> tuple[wire.PriceRow, ...]:
        wish = {"gpuCount": num_gpus, **wishes.filters(needs, place)}
        variables = {
            "ids": sorted(gpu_type_ids),
            "secure": {**wish, "secureCloud": True},
            "community": {**wish, "secureCloud": False},
        }
        data = await self._client.query(queries.PRICES, shapes.PRICES, variables)
        raw = data.get("gpuTypes")
        if not isinstance(raw, list):
            raise MarketUnknown("the answer holds no list of GPU types")
        facts = wishes.facts_of(needs, place)
        return tuple(
            replace(row, host=facts) for gpu in raw for row in wire.price_rows(gpu, num_gpus) if place.has(row.cloud)
        )

    async def probe_spot(self) -> Answer:
        """Whether the market would understand a request for a spot pod; asks for none. Raises ``NoReply``."""
        return await self._client.attempt(
            Family.GRAPHQL_READ, lambda: self._client.graphql(queries.SPOT_PROBE, shapes.PROBE)
        )

    async def rent_spot(self, wanted: create.PodRequest) -> Done[Created] | Refused | Unknown:
        """Without waiting for a turn: the caller is in the lane."""
        try:
            variables = {"input": create.graphql_input(wanted)}
            answer = await self._client.send(
                Family.CREATE, lambda: self._client.graphql(queries.RENT_SPOT, shapes.SPOT_RENTED, variables)
            )
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.spot_rented(answer, queries.SPOT_OPERATION)

    async def rent_on_demand(self, wanted: create.PodRequest) -> Done[Created] | Refused | Unknown:
        """Without waiting for a turn: the caller is in the lane."""
        try:
            variables = {"input": create.graphql_input(wanted)}
            answer = await self._client.send(
                Family.CREATE, lambda: self._client.graphql(queries.RENT_ON_DEMAND, shapes.ON_DEMAND_RENTED, variables)
            )
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.judge_rental(answer, queries.ON_DEMAND_OPERATION)

    async def resume_spot(self, pod: wire.PodRow, bid: Decimal) -> Outcome:
        """``bid``: $/h of the whole pod."""
        share = float(mapping.bid_per_gpu(bid, pod.num_gpus))
        variables = {"podId": pod.pod_id, "bidPerGpu": share, "gpuCount": pod.num_gpus}
        return await self._change(queries.RESUME_SPOT, shapes.SPOT_RESUMED, variables, queries.RESUME_SPOT_OPERATION)

    async def resume(self, pod: wire.PodRow) -> Outcome:
        variables = {"podId": pod.pod_id, "gpuCount": pod.num_gpus}
        return await self._change(queries.RESUME, shapes.RESUMED, variables, queries.RESUME_OPERATION)

    async def _change(self, document: str, shape: AnswerShape, variables: Mapping[str, Any], operation: str) -> Outcome:
        try:
            answer = await self._client.attempt(
                Family.GRAPHQL_CHANGE, lambda: self._client.graphql(document, shape, variables)
            )
        except NoReply as error:
            return Unknown(str(error))
        return outcomes.judge_change(answer, operation)

    async def stop(self, pod_id: str) -> Outcome:
        said = await self._claim(self._call_stop(pod_id))
        if isinstance(said, Done):
            return said
        return await self._verify(pod_id, said, lambda pod: pod is not None and pod.state == "EXITED")

    async def destroy(self, pod_id: str) -> Outcome:
        said = await self._claim(self._call_terminate(pod_id))
        return await self._verify(pod_id, said, lambda pod: pod is None or pod.state == "TERMINATED")

    async def _call_stop(self, pod_id: str) -> None:
        if not await self._client.by_sdk(Family.GRAPHQL_CHANGE, lambda: self._client.transport.stop(pod_id)):
            raise NoReply("the answer to a stop does not show a stopped pod")

    async def _call_terminate(self, pod_id: str) -> None:
        await self._client.by_sdk(Family.GRAPHQL_CHANGE, lambda: self._client.transport.terminate(pod_id))

    async def _claim(self, call: Awaitable[None]) -> Outcome:
        try:
            await call
        except SdkRefused as error:
            code = outcomes.CODES.get(error.fault)
            return Unknown(str(error)) if code is None else Refused(code, str(error))
        except NoReply as error:
            return Unknown(str(error))
        return Done(None)

    async def _verify(self, pod_id: str, said: Outcome, did: Callable[[wire.PodRow | None], bool]) -> Outcome:
        """What the SDK makes of an answer is no proof: it hides statuses. The pod itself is looked at."""
        try:
            pod = await self.pod(pod_id, tries=1)
        except Withdrawn:
            raise
        except MarketUnknown as error:
            return said if isinstance(said, Refused) else Unknown(f"not to be verified: {error}")
        if did(pod):
            return Done(None)
        if isinstance(said, Done):
            return Unknown("the market took the request, but did not carry it out")
        is_there = pod is not None and pod.state != "TERMINATED"
        if is_there and isinstance(said, Refused) and said.code is RefusalCode.NOT_FOUND:
            # "There is none" counts as the end of it, and this one is shown.
            return Unknown(f"the market shows the pod, and says: {said.message}")
        return said


def _credit(myself: Mapping[str, Any]) -> Decimal:
    credit = values.dollars(myself.get("clientBalance"))
    if credit is None:
        raise MarketUnknown("the account names no balance")
    return credit
