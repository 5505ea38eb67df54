"""Buckets of Hugging Face: a GET leads to another host; whether presigned addresses are honoured has to be tried."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.agent.shipped.web import BadStatus, Web
from autopilot.blobs.probe import ProbeFailed, probe
from autopilot.config.meeting import SERVICES, fill
from autopilot.config.settings import BlobsSettings, Settings
from autopilot.service.doctor import check_mailbox
from tests.hf_server import ACCESS_KEY_ID, BUCKET, NAMESPACE, SECRET_ACCESS_KEY, HuggingFace, running_hugging_face
from tests.integration.s3.keepers import Machine, content

SOON = timedelta(minutes=5)


@pytest.fixture
async def hf() -> AsyncIterator[HuggingFace]:
    async with running_hugging_face() as server:
        yield server


async def test_the_probe_follows_the_redirect(hf: HuggingFace) -> None:
    assert "signed URLs" in await probe(hf.store("autopilot"))
    assert hf.redirects > 0
    assert hf.objects == {}
    assert all("authorization" not in told for told in hf.told_cdn)


async def test_a_store_that_refuses_presigned_addresses_is_told_plainly(hf: HuggingFace) -> None:
    hf.honours_presigned = False
    with pytest.raises(ProbeFailed, match="it refuses presigned addresses") as refused:
        await probe(hf.store())
    assert "403" in str(refused.value)
    assert hf.objects == {}


async def test_the_doctor_says_what_to_do_then(hf: HuggingFace, tmp_path: Path) -> None:
    hf.honours_presigned = False
    key = tmp_path / "bucket_key"
    key.touch(mode=0o600)
    key.write_text(f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}")
    url, endpoint = f"s3://{BUCKET}/autopilot", f"{hf.url}/{NAMESPACE}"
    settings = Settings(state_dir=tmp_path, blobs=BlobsSettings(url=url, endpoint=endpoint, key_file=key))
    check = await check_mailbox(settings)
    assert check.ok is False
    assert "presigned" in check.detail
    assert "a bucket of another service" in check.hint
    hf.honours_presigned = True
    assert (await check_mailbox(settings)).ok is True


async def test_a_checkpoint_goes_there_and_back(hf: HuggingFace, tmp_path: Path) -> None:
    store = hf.store("autopilot")
    first = Machine(store, tmp_path / "a", "a")
    first.files.mkdir()
    (first.files / "weights").write_bytes(os.urandom(3 << 20))
    (first.files / "state.json").write_text('{"step": 1}')
    await first.checkpoint()
    assert await first.verify() is not None
    second = Machine(store, tmp_path / "b", "b")
    second.newest = first.newest
    await second.restore()
    assert content(second.files) == content(first.files)
    assert hf.redirects > 0
    assert all("authorization" not in told for told in hf.told_cdn)


async def test_the_agent_takes_no_signature_to_another_host(hf: HuggingFace) -> None:
    store, web = hf.store(), Web()
    await store.put("a", b"0123456789")
    url = store.sign_get("a", SOON)
    told = {"Authorization": "Bearer key", "X-Amz-Security-Token": "token", "Cookie": "c=1", "Range": "bytes=4-"}

    def ask() -> tuple[bytes, int]:
        with web.answer("GET", url, headers=told) as answer:
            return answer.read(), answer.status

    assert await asyncio.to_thread(web.get, url) == b"0123456789"
    assert await asyncio.to_thread(ask) == (b"456789", 206)
    assert hf.told_cdn[-1]["range"] == "bytes=4-"
    assert not {"authorization", "x-amz-security-token", "cookie"} & hf.told_cdn[-1].keys()


async def test_what_changes_something_is_not_sent_elsewhere(hf: HuggingFace) -> None:
    await hf.store().put("a", b"x")
    url = hf.store().sign_get("a", SOON)

    def ask() -> None:
        with Web().answer("DELETE", url):
            pass

    with pytest.raises(BadStatus):
        await asyncio.to_thread(ask)
    assert hf.told_cdn == []


def test_init_offers_them() -> None:
    (service,) = (each for each in SERVICES if each.name == "hf")
    assert fill(service.endpoint, {"namespace": NAMESPACE}) == f"https://s3.hf.co/{NAMESPACE}"
