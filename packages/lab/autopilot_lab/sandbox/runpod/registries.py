"""Credentials for registries as RunPod keeps them: written once, shown by id and name, used by id."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from autopilot_lab.sandbox.private_images import Login, PrivateImage, refusal
from autopilot_lab.sandbox.runpod.pods import PodOrder
from autopilot_lab.sandbox.runpod.refusals import PodRefused, RefusalReason, invalid
from autopilot_lab.sandbox.runpod.rows import Json


@dataclass(frozen=True)
class Credential:
    id: str
    name: str
    login: Login
    team: str | None

    def row(self) -> Json:
        return {"id": self.id, "name": self.name}


@dataclass
class Registries:
    private: tuple[PrivateImage, ...] = ()
    held: dict[str, Credential] = field(default_factory=dict)
    _made: int = 0

    def of(self, team: str | None) -> list[Credential]:
        return [each for each in self.held.values() if each.team == team]

    def save(self, name: str, user: str, password: str, team: str | None) -> Credential:
        """Raises ``PodRefused`` for a name that is taken."""
        if not (name and user and password):
            raise invalid("name, username and password are required")
        if any(each.name == name for each in self.of(team)):
            raise invalid("A container registry auth with this name already exists.")
        self._made += 1
        made = Credential(f"cregauth{self._made:08d}", name, Login(user, password), team)
        self.held[made.id] = made
        return made

    def find(self, credential_id: str, team: str | None) -> Credential:
        """Raises ``PodRefused``."""
        held = self.held.get(credential_id)
        if held is None or held.team != team:
            raise PodRefused(RefusalReason.NOT_FOUND, "container registry auth not found")
        return held

    def delete(self, credential_id: str, team: str | None) -> None:
        del self.held[self.find(credential_id, team).id]

    def judge(self, order: PodOrder) -> PodOrder:
        """The order with what the registry will say to it. Raises ``PodRefused`` for a credential that is not there."""
        login = None
        if order.registry_id is not None:
            if (held := self.held.get(order.registry_id)) is None or held.team != order.team:
                raise invalid("Container registry auth not found.")
            login = held.login
        return replace(order, pull_refusal=refusal(self.private, order.image, login))
