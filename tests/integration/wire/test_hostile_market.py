"""Answers that no market means to give, over real sockets to the real SDKs: each call ends, soon and in doubt."""

from __future__ import annotations

import asyncio
import datetime as dt
import resource
import ssl
import time
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from autopilot.clock import ScaledClock
from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest, Done, MarketUnknown, Plugin, Provider, Refused, Unknown
from autopilot.providers.mithril import plugin as mithril
from autopilot.providers.runpod import plugin as runpod
from autopilot.providers.vastai import plugin as vastai
from tests.integration.wire.hostile_server import (
    Act,
    deep_json,
    dripping_body,
    dripping_chunks,
    dripping_head,
    gzip_bomb,
    half_an_answer,
    hostile_server,
    huge_number,
    hundred_megabytes,
    redirect_to,
    silence,
)
from tests.patience import eventually

KEY = "sentinel-account-key"
TIMEOUT_S = 0.15
MARKETS: dict[str, tuple[Plugin, str, str]] = {
    "vastai": (vastai, "77", "1234"),
    "runpod": (runpod, "abc123xyz", "NVIDIA GeForce RTX 4090:1:COMMUNITY"),
    "mithril": (mithril, "bid_1", "us-central5-a/it_h100x8"),
}

ACTS = [dripping_body, hundred_megabytes, gzip_bomb]
MORE_ACTS = [dripping_head, half_an_answer, dripping_chunks, silence, deep_json, huge_number]


def some_and_more(some: list[Any], more: list[Any]) -> list[Any]:
    """The rest belongs to the longer gate."""
    return [*some, *(pytest.param(each, marks=pytest.mark.slow) for each in more)]


def named(value: Any) -> str:
    return getattr(value, "__name__", str(value))


@pytest.fixture(params=sorted(MARKETS))
def market(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def connect(market: str) -> AsyncIterator[Callable[[str], Provider]]:
    made: list[Provider] = []

    def to(url: str) -> Provider:
        plugin = MARKETS[market][0]
        settings: dict[str, Any] = {"base_url": url, "api_key": KEY, "timeout_s": TIMEOUT_S}
        made.append(plugin.connect(settings, ScaledClock(dt.datetime.now(dt.UTC), 600)))
        return made[-1]

    yield to
    for provider in made:
        await provider.close()


def a_request(market: str) -> CreateRequest:
    return CreateRequest(
        label="ap1.abcdefgh.01KDVDNRY4R11887CN5CG1S8J6",
        offer_id=MARKETS[market][2],
        machine_id="1",
        capacity_type=CapacityType.SPOT if market == "mithril" else CapacityType.ON_DEMAND,
        bid=Decimal("0.4"),
        image="some/image:1",
        disk_gb=Decimal(20),
        env={},
        onstart="true",
    )


async def assert_in_doubt(provider: Provider, market: str) -> None:
    """Reads report an unknown market, changes an unknown outcome, and the loop is free meanwhile."""
    instance_id = MARKETS[market][1]
    for change in (provider.destroy, provider.stop):
        outcome = await bounded(change(instance_id))
        assert isinstance(outcome, Unknown), outcome
        assert KEY not in repr(outcome)
    created = await bounded(provider.create(a_request(market)))
    assert isinstance(created, (Unknown, Refused)), created
    for read in (provider.instances, lambda: provider.instance(instance_id), provider.account):
        with pytest.raises(MarketUnknown):
            await bounded(read())


async def bounded(call: Any) -> Any:
    # Its own seconds of CPU: what else this machine does is not the loop's fault.
    longest, before = 0.0, time.thread_time()
    task = asyncio.ensure_future(call)
    while not task.done():
        await asyncio.wait({task}, timeout=0.01)
        longest, before = max(longest, time.thread_time() - before), time.thread_time()
    assert longest < 10.0, "the event loop stood still"
    return await task


@pytest.mark.parametrize("act", some_and_more(ACTS, MORE_ACTS), ids=named)
async def test_each_call_ends_and_claims_nothing(act: Act, market: str, connect: Callable[[str], Provider]) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with hostile_server(act) as server:
        await assert_in_doubt(connect(server.url), market)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 160 * 1024, "in KiB: it was all kept"


async def test_a_market_that_dripped_can_be_asked_again(market: str, connect: Callable[[str], Provider]) -> None:
    """One answer without an end must not keep later requests waiting: a destroy above all."""
    async with hostile_server(dripping_body) as server:
        provider = connect(server.url)

        async def is_heard() -> bool:
            """One at a time: on a busy machine a call may be over before its request has arrived."""
            await bounded(provider.destroy(MARKETS[market][1]))
            return sum(head.startswith(("DELETE", "POST /graphql")) for head in server.heads) >= 4

        await eventually(is_heard, "four requests")


@pytest.mark.parametrize("status", some_and_more([307], [301, 302, 303, 308]))
async def test_no_redirect_is_followed(market: str, status: int, connect: Callable[[str], Provider]) -> None:
    async with (
        hostile_server(half_an_answer) as elsewhere,
        hostile_server(redirect_to(elsewhere.url, status)) as server,
    ):
        provider = connect(server.url)
        await assert_in_doubt(provider, market)
        assert elsewhere.heads == [], "a request, perhaps with the key, went to another host"
        assert all(f"Bearer {KEY}" in head and KEY not in head.splitlines()[0] for head in server.heads)


def a_certificate(root: Path, *, until: dt.timedelta) -> ssl.SSLContext:
    """For 127.0.0.1, signed by an untrusted issuer."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(days=9)).not_valid_after(now + until)
    (root / "certificate").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (root / "key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(root / "certificate", root / "key")
    return context


@pytest.mark.slow
@pytest.mark.parametrize("days", some_and_more([9], [-1]))
async def test_nothing_is_said_to_a_server_whose_certificate_is_not_trusted(
    market: str, days: int, tmp_path: Path, connect: Callable[[str], Provider]
) -> None:
    tls = a_certificate(tmp_path, until=dt.timedelta(days=days))
    async with hostile_server(half_an_answer, tls) as server:
        await assert_in_doubt(connect(server.url), market)
        assert server.heads == []


@pytest.mark.slow
async def test_a_server_that_speaks_no_tls_hears_no_key(market: str, connect: Callable[[str], Provider]) -> None:
    async with hostile_server(half_an_answer) as server:
        await assert_in_doubt(connect(server.url.replace("http://", "https://")), market)
        assert not any(KEY in head for head in server.heads)


@pytest.mark.slow
async def test_a_handshake_that_never_ends_is_cut_off(market: str, connect: Callable[[str], Provider]) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"\x16\x03\x03\x40\x00" if not writer.transport.get_write_buffer_size() else b"\x02")
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        outcome = await bounded(connect(url).destroy(MARKETS[market][1]))
        assert not isinstance(outcome, Done)
    finally:
        server.close()
