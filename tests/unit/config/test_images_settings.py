"""Registries are asked for real markets alone: a sandbox and its tests reach out to nothing."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from autopilot.config.settings import ImagesSettings, ProviderSettings, Settings

EMULATED = ProviderSettings(base_url="http://127.0.0.1:8600")


@pytest.mark.parametrize(
    ("images", "providers", "asks"),
    [
        (ImagesSettings(), {"vastai": ProviderSettings()}, True),
        (ImagesSettings(), {"vastai": EMULATED, "runpod": ProviderSettings()}, True),
        (ImagesSettings(), {"vastai": EMULATED}, False),
        (ImagesSettings(), {"vastai": EMULATED, "runpod": ProviderSettings(enabled=False)}, False),
        (ImagesSettings(inspect=False), {"vastai": ProviderSettings()}, False),
    ],
)
def test_registries_are_asked_for_real_markets(
    images: ImagesSettings, providers: dict[str, ProviderSettings], asks: bool
) -> None:
    settings = Settings(images=images, providers=providers)
    assert settings.asks_registries is asks
    assert settings.on_paper().asks_registries is asks


def test_a_registry_of_the_own_network_is_a_host_with_its_port() -> None:
    assert ImagesSettings(local=("registry.lan:5000",)).local == ("registry.lan:5000",)
    with pytest.raises(ValidationError, match="host and port"):
        ImagesSettings(local=("registry.lan",))
