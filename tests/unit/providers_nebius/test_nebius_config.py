"""Settings of Nebius: what is refused, and that no key is ever said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autopilot.domain.errors import UserError
from autopilot.providers.nebius.config import parse_settings

PROJECTS = {"eu-north1": "project-e00x"}
PEM = "-----BEGIN PRIVATE KEY-----\nhush hush\n-----END PRIVATE KEY-----\n"
CREDENTIALS = {
    "subject-credentials": {
        "type": "JWT", "alg": "RS256", "private-key": PEM, "kid": "publickey-1", "iss": "serviceaccount-1",
        "sub": "serviceaccount-1",
    }
}  # fmt: skip


def parse(**changes: Any) -> Any:
    return parse_settings({"api_key": "token", "projects": PROJECTS, **changes})


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "http://127.0.0.1:80"},
        {"base_url": "grpc://example.com:80"},
        {"base_url": "https://api.nebius.cloud/path"},
        {"projects": {}},
        {"projects": {"eu-north1": "a/b"}},
        {"projects": {"EU": "project-1"}},
        {"projects": {"a": "project-1", "b": "project-1"}},
        {"api_key": ""},
        {"api_key": "two words"},
        {"api_key": "{}"},
        {"api_key": "{" * 5000},
        {"api_key": json.dumps({"subject-credentials": {"private-key": PEM}})},
        {"timeout_s": 0},
        {"unheard_of": 1},
    ],
)
def test_what_is_wrong_is_refused_in_words(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError) as refused:
        parse(**wrong)
    assert "hush" not in str(refused.value)


def test_credentials_of_a_service_account_are_read() -> None:
    parsed = parse(api_key=json.dumps(CREDENTIALS))
    assert parsed.credentials["private-key"] == PEM
    assert "hush" not in repr(parsed)
    assert parse().credentials is None


def test_a_key_that_is_no_rsa_key_is_refused() -> None:
    from autopilot.providers.nebius.sdk import Sdk

    with pytest.raises(UserError, match="no RSA key") as refused:
        Sdk(parse(api_key=json.dumps(CREDENTIALS)))
    assert "hush" not in str(refused.value)
