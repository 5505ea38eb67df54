"""Tokens that were never announced, and secrets in any form and anywhere in a structure."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopilot.blobs.local import LocalBlobStore
from autopilot.telemetry.redaction import REDACTED, scrubber

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=12, max_size=40)
AROUND = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10)


@settings(max_examples=40, deadline=None)
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_a_secret_is_found_in_every_form_and_place(secret: str, before: str, after: str) -> None:
    scrub = scrubber([secret])
    plain = before + secret + after
    packed = base64.b64encode(plain.encode()).decode()
    forms = [plain, quote(secret, safe=""), repr(secret), packed, base64.urlsafe_b64encode(plain.encode()).decode()]
    for form in forms:
        for event in (form, {"a": [form, {"b": (form,)}]}, {form: 1}, form.encode(), ValueError(form)):
            shown = repr(scrub(event))
            assert REDACTED in shown
            assert secret not in shown or secret in REDACTED


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef0123456789",
        "authorization: bearer abcdef0123456789",
        "GET /v1/jobs/aptk_abcdef0123456789/logs",
        "Authorization: Basic dXNlcjpwYXNzd29yZA",
        "GET https://host/path?api_key=abcdef0123456789",
        "https://host/bucket/x?X-Amz-Credential=abcdef0123456789&X-Amz-Signature=abcdef0123456789&more=1",
        "https://host/x?a=1&signature=abcdef0123456789 failed",
        "see https://host/x?token=abcdef0123456789.",
    ],
)
def test_tokens_are_found_by_their_prefix(text: str) -> None:
    shown = scrubber([])(text)
    assert "abcdef0123456789" not in shown
    assert "dXNlcjpwYXNzd29yZA" not in shown
    assert REDACTED in shown


def test_a_signed_address_opens_nothing_once_it_is_logged(tmp_path: Path) -> None:
    url = LocalBlobStore(tmp_path, b"k" * 32, "http://host").sign_get("jobs/a/b/orders.json", timedelta(hours=1))
    signature = url.partition("signature=")[2]
    assert len(signature) == 64
    assert signature not in scrubber([])(f"cannot fetch {url}: timed out")


@pytest.mark.parametrize(
    "text", ["the bearer of this letter", "basic terms", "key=value", "bid 0.31 at https://host/?page=2&limit=100", ""]
)
def test_plain_words_stay_as_they_are(text: str) -> None:
    assert scrubber([])(text) == text


@pytest.mark.parametrize("key", ["dockerArgs", "docker_args", "Cookie", "password", "jupyter_token", "image-login"])
def test_fields_that_hold_credentials_are_hidden_at_any_depth(key: str) -> None:
    assert scrubber([])({"row": [{key: "x"}]}) == {"row": [{key: REDACTED}]}
