"""Temporary keys from a security token service, narrowed to what one machine may write and read: AWS, and who has one.

The account's key asks for the role's; a policy that goes with the request leaves of its rights what is named here.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from autopilot.ports.blobs import BlobUnavailable

VALID_FOR = timedelta(hours=1)
_TIMEOUT = aiohttp.ClientTimeout(total=20)
_FIELDS = ("AccessKeyId", "SecretAccessKey", "SessionToken")


@dataclass(frozen=True, slots=True)
class AssumedRole:
    arn: str
    endpoint: str
    """Address of the token service."""
    region: str
    key_id: str
    secret: str


def policy(bucket: str, write: Sequence[str], read: Sequence[str]) -> str:
    """What is left of the role's rights: no list, no delete. The keys end in ``*`` where they stand for many."""
    acts = (("s3:PutObject", write), ("s3:GetObject", read))
    statements = [
        {"Effect": "Allow", "Action": [act], "Resource": [f"arn:aws:s3:::{bucket}/{key}" for key in keys]}
        for act, keys in acts
        if keys
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


async def assume(role: AssumedRole, session: str, narrowed_by: str) -> tuple[str, str, str]:
    """(key id, secret, session token), valid for ``VALID_FOR``. Raises ``BlobUnavailable``."""
    form = {
        **{"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": role.arn, "RoleSessionName": session},
        **{"DurationSeconds": str(int(VALID_FOR.total_seconds())), "Policy": narrowed_by},
    }
    body = urlencode(form)
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as http,
            http.post(role.endpoint, data=body, headers=_sign(role, body)) as answer,
        ):
            text = await answer.text()
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as problem:
        raise BlobUnavailable(f"the token service: {problem or type(problem).__name__}") from problem
    found = [re.search(f"<{name}>([^<]+)</{name}>", text) for name in _FIELDS]
    if answer.status != 200 or not all(found):
        said = re.search("<Message>([^<]+)</Message>", text)
        raise BlobUnavailable(f"the token service answered {answer.status} {said[1] if said else ''}".rstrip())
    key_id, secret, token = (match[1] for match in found if match)
    return key_id, secret, token


def _sign(role: AssumedRole, body: str) -> dict[str, str]:
    parts = urlsplit(role.endpoint)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/{role.region}/sts/aws4_request"
    kind = "application/x-www-form-urlencoded; charset=utf-8"
    named = {"content-type": kind, "host": parts.netloc, "x-amz-date": stamp}
    headers = "".join(f"{name}:{value}\n" for name, value in named.items())
    path = quote(parts.path or "/", safe="/-._~")
    request = f"POST\n{path}\n\n{headers}\n{';'.join(named)}\n{sha256(body.encode()).hexdigest()}"
    credential = f"Credential={role.key_id}/{scope}, SignedHeaders={';'.join(named)}"
    digest = sha256(request.encode()).hexdigest()
    key = ("AWS4" + role.secret).encode()
    for step in scope.split("/"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hex()
    signed = f"AWS4-HMAC-SHA256 {credential}, Signature={signature}"
    return {"Content-Type": kind, "X-Amz-Date": stamp, "Authorization": signed}
