"""Registry logins as the market keeps them, through REST v2: written once, shown by id and name, used by id."""

from __future__ import annotations

from autopilot.domain.registry import RegistryLogin
from autopilot.ports.provider import Done, KeptLogin, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers import values
from autopilot.providers.reading import NoReply
from autopilot.providers.runpod import outcomes, shapes, wire
from autopilot.providers.runpod.client import RunpodClient
from autopilot.providers.runpod.outcomes import Outcome, Withdrawn
from autopilot.providers.runpod.pacing import Family


class RunpodLogins:
    def __init__(self, client: RunpodClient) -> None:
        self._client = client

    async def list(self) -> tuple[KeptLogin, ...]:
        raw = (await self._client.get("/registries", shapes.LOGINS)).get("registries")
        if not isinstance(raw, list):
            raise MarketUnknown("the answer holds no list of registry credentials")
        found = tuple(_login(row) for row in raw)
        if None in found:
            raise MarketUnknown("a registry credential in the list cannot be read")
        return tuple(filter(None, found))

    async def save(self, name: str, login: RegistryLogin) -> Done[KeptLogin] | Refused | Unknown:
        body = {"name": name, "username": login.user, "password": login.password}
        try:
            answer = await self._client.attempt(
                Family.REST_CHANGE, lambda: self._client.rest("POST", "/registries", shapes.LOGIN, body=body)
            )
            outcome = outcomes.judge_change(answer)
        except (NoReply, Withdrawn) as error:
            return Unknown(str(error))
        if not isinstance(outcome, Done):
            return outcome
        made = _login(answer.body)
        return Unknown(f"{answer.summary}, but no credential in it") if made is None else Done(made)

    async def delete(self, login_id: str) -> Outcome:
        try:
            answer = await self._client.attempt(
                Family.REST_CHANGE, lambda: self._client.rest("DELETE", f"/registries/{login_id}", shapes.LOGIN)
            )
            outcome = outcomes.judge_change(answer)
        except (NoReply, Withdrawn) as error:
            return Unknown(str(error))
        is_gone = isinstance(outcome, Refused) and outcome.code is RefusalCode.NOT_FOUND
        return Done(None) if is_gone else outcome


def _login(raw: object) -> KeptLogin | None:
    """None without its id, or without the name by which it is looked up: one that is not found is made again."""
    row = values.mapping(raw)
    login_id, name = wire.check_pod_id(row.get("id")), row.get("name")
    return KeptLogin(login_id, values.label(name)) if login_id is not None and isinstance(name, str) else None
