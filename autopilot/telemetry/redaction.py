"""Removes secrets from log events: by value anywhere, and by the name of the key that holds them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"

SECRET_KEYS = frozenset(
    {
        "api_key",
        "authorization",
        "cookie",
        "docker_args",
        "dockerargs",
        "env",
        "extra_env",
        "image_login",
        "instance_api_key",
        "jupyter_token",
        "onstart",
        "password",
        "token",
    }
)
"""Fields of market requests and rows that carry credentials or the user's own variables. ``onstart`` holds
signed addresses."""

_TOKENS = re.compile(
    r"""(\b(?:bearer|basic)\s+|\baptk_"""
    r"""|[?&](?:x-amz-(?:signature|security-token|credential)|signature|api_key|token|key)=)"""
    r"""[^\s&"'<>]{6,}""",
    re.IGNORECASE,
)
"""All that lets its bearer in: credentials in headers, signatures of addresses, tokens of our API. An address of a
machine's orders would show the secrets that a job was given."""

_DEEPEST = 12
"""Structures nested deeper than this are not walked but dropped: nothing unseen may pass."""

Scrub = Callable[[Any], Any]


def scrubber(secrets: Collection[str]) -> Scrub:
    """A function that returns its argument with every secret replaced, in nested containers too.

    Each secret is found as it is, percent-encoded, and in base64 at any alignment (as in ``Basic`` credentials).
    Unlisted tokens are found by the text before them.
    Values other than text, numbers and containers become their ``str``, scrubbed.
    """
    forms = {form for secret in secrets if secret for form in _forms(secret)}
    pattern = re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))) if forms else None

    def scrub_text(text: str) -> str:
        return _TOKENS.sub(rf"\1{REDACTED}", pattern.sub(REDACTED, text) if pattern else text)

    def scrub(value: Any, depth: int = 0) -> Any:
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return scrub_text(value)
        if depth >= _DEEPEST:
            return REDACTED
        if isinstance(value, Mapping):
            return {
                scrub_text(str(key)): REDACTED if _is_secret(key) else scrub(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [scrub(item, depth + 1) for item in value]
        return scrub_text(value.decode(errors="replace") if isinstance(value, bytes) else _show(value))

    return scrub


def _is_secret(key: object) -> bool:
    return str(key).lower().replace("-", "_") in SECRET_KEYS


def _show(value: object) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _forms(secret: str) -> set[str]:
    forms = {secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]}
    raw = secret.encode()
    for offset in range(3):
        # Base64 of text that holds the secret depends on the secret's place modulo 3; the characters at either
        # edge mix with the neighbours and are left out.
        for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = alphabet(b"\0" * offset + raw).decode().rstrip("=")
            start = -(-offset * 8 // 6)
            end = (offset + len(raw)) * 8 // 6
            if end - start >= 8:
                forms.add(encoded[start:end])
    return forms
