"""Buckets of Azure's (against its emulator, where that is installed) and Google's (what can be checked without it)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import urllib.request
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from autopilot.agent.shipped.chunks import SMALLEST_PART_BYTES
from autopilot.blobs.bucket import Bucket, BucketBlobStore
from autopilot.blobs.probe import ProbeFailed, probe
from autopilot.config.keys import store_private
from autopilot.config.settings import BlobsSettings, Settings
from autopilot.domain.errors import UserError
from tests.integration.s3.keepers import Machine, content
from tests.patience import PATIENCE_S, eventually

AZURITE = os.environ.get("AZURITE_BLOB") or shutil.which("azurite-blob")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's, the same everywhere."""


@pytest.fixture
async def azure(tmp_path: Path) -> AsyncIterator[Bucket]:
    if not AZURITE:
        pytest.skip("Azurite is not installed (npm install azurite; AZURITE_BLOB=…/azurite-blob)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--location", str(tmp_path / "azure"), "--blobPort", str(port), "--silent"]
    process = await asyncio.create_subprocess_exec(AZURITE, *arguments)
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    try:

        async def is_made() -> bool:
            with suppress(OSError):
                await asyncio.to_thread(create_container, endpoint)
                return True
            return False

        await eventually(is_made, "a container", every_s=0.1)
        yield Bucket("az://box/autopilot", ACCOUNT, KEY, endpoint)
    finally:
        process.terminate()
        await process.wait()


def create_container(endpoint: str) -> None:
    """As an account's owner does it, signed with the account's key."""
    date = format_datetime(datetime.now(UTC), usegmt=True)
    named = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{ACCOUNT}/{ACCOUNT}/box\nrestype:container"
    text = "PUT" + "\n" * 12 + named
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    signature = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": signature, "Content-Length": "0"}
    request = urllib.request.Request(f"{endpoint}/box?restype=container", method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=PATIENCE_S).close()


async def test_azure_does_all_that_is_asked_of_a_bucket(azure: Bucket) -> None:
    assert "work" in await probe(BucketBlobStore(azure))
    wrong = Bucket(azure.url, ACCOUNT, base64.b64encode(b"wrong").decode(), azure.endpoint)
    with pytest.raises(ProbeFailed, match="cannot write"):
        await probe(BucketBlobStore(wrong))


async def test_a_checkpoint_goes_to_azure_and_comes_back(azure: Bucket, tmp_path: Path) -> None:
    machine = Machine(BucketBlobStore(azure), tmp_path / "disk", "a")
    machine.web.put_headers = dict(machine.store.put_headers)
    machine.files.mkdir()
    (machine.files / "weights").write_bytes(os.urandom(2 * SMALLEST_PART_BYTES))
    await machine.checkpoint()
    assert await machine.verify() is not None
    other = Machine(BucketBlobStore(azure), tmp_path / "other", "b")
    other.newest = machine.newest
    await other.restore()
    assert content(other.files) == content(machine.files)


@pytest.fixture(scope="module")
def service_account() -> tuple[str, rsa.RSAPublicKey]:
    private = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.PKCS8
    pem = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    body = {"type": "service_account", "private_key_id": "k", "private_key": pem, "client_email": "me@p.example"}
    return json.dumps(body), private.public_key()


def test_google_s_urls_are_signed_for_one_act_on_one_object(service_account: tuple[str, rsa.RSAPublicKey]) -> None:
    store = BucketBlobStore(Bucket("gs://box/autopilot", "", service_account[0]))
    url = urlsplit(store.sign_put("jobs/a/orders.json", timedelta(days=7), 100))
    assert (url.scheme, url.netloc, url.path) == (
        "https",
        "storage.googleapis.com",
        "/box/autopilot/jobs/a/orders.json",
    )
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    signature = bytes.fromhex(query.pop("X-Goog-Signature"))
    assert query["X-Goog-Expires"] == str(7 * 86_400)
    canonical = "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query))
    request = f"PUT\n{url.path}\n{canonical}\nhost:{url.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    scope = query["X-Goog-Credential"].split("/", 1)[1]
    digest = hashlib.sha256(request.encode()).hexdigest()
    signed = f"GOOG4-RSA-SHA256\n{query['X-Goog-Date']}\n{scope}\n{digest}"
    service_account[1].verify(signature, signed.encode(), padding.PKCS1v15(), hashes.SHA256())


def test_google_s_key_is_a_file_of_json_and_never_seen(
    service_account: tuple[str, rsa.RSAPublicKey], tmp_path: Path
) -> None:
    path = store_private(tmp_path, "bucket_key", service_account[0])
    settings = Settings(blobs=BlobsSettings(url="gs://box", key_file=path))
    assert settings.bucket_key() == ("", service_account[0])
    private = json.loads(service_account[0])["private_key"]
    assert private in settings.secret_values()
    assert any(secret in path.read_text() for secret in settings.secret_values())
    store_private(tmp_path, "bucket_key", "id:secret")
    with pytest.raises(UserError, match="service account"):
        settings.bucket_key()


@pytest.mark.parametrize("url", ["gs://box", "az://box"])
def test_a_key_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="is invalid"):
        BucketBlobStore(Bucket(url, "account", "{}"))
