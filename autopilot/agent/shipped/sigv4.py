"""Requests to an S3 store signed with temporary keys (AWS Signature Version 4): a URL for one act on one object."""

from __future__ import annotations

import hashlib
import hmac
import time
import urllib.parse
from typing import Any

VALID_S = 3600
SAFE = "-._~"


def presign(method: str, key: str, grant: dict[str, Any], at: float) -> str:
    """``at``: seconds since 1970 by the daemon's clock, for this machine's may be wrong."""
    base = urllib.parse.urlsplit(grant["base_url"])
    path = urllib.parse.quote(f"{base.path}/{key}", safe="/" + SAFE)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    scope = f"{stamp[:8]}/{grant['region']}/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{grant['key_id']}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(VALID_S),
        "X-Amz-Security-Token": grant["token"],
        "X-Amz-SignedHeaders": "host",
    }
    query = {name: value for name, value in query.items() if value}  # keys that are not temporary have no token
    encoded = urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote, safe=SAFE)
    request = f"{method}\n{path}\n{encoded}\nhost:{base.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    signed = signature(grant["secret"], scope, stamp, request)
    return f"{base.scheme}://{base.netloc}{path}?{encoded}&X-Amz-Signature={signed}"


def signature(secret: str, scope: str, stamp: str, canonical_request: str) -> str:
    """``scope``: date, region, service and ``aws4_request``, joined by slashes."""
    key = ("AWS4" + secret).encode()
    for step in scope.split("/"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    digest = hashlib.sha256(canonical_request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
