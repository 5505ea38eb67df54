"""An S3 service by the rules of Hugging Face's buckets, as far as they are known: path style below a namespace, lists
of version 2 alone, ``If-Match`` on PUT, and a GET that is answered by 302 to a second origin, which refuses a request
with an Authorization header.

What is not known of it is a switch (``honours_presigned``), or as S3 does it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

from autopilot.blobs.bucket import Bucket, BucketBlobStore

NAMESPACE, BUCKET = "me", "checkpoints"
ACCESS_KEY_ID, SECRET_ACCESS_KEY = "HFAKtest", "sentinel-hf-secret"
PAGE = 100


@dataclass
class HuggingFace:
    honours_presigned: bool = True
    url: str = ""
    cdn_url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Of the second origin: token → key."""
    redirects: int = 0
    told_cdn: list[dict[str, str]] = field(default_factory=list)
    """The headers of each request there."""

    def store(self, prefix: str = "") -> BucketBlobStore:
        endpoint = f"{self.url}/{NAMESPACE}"
        return BucketBlobStore(Bucket(f"s3://{BUCKET}/{prefix}", ACCESS_KEY_ID, SECRET_ACCESS_KEY, endpoint))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if not (self._is_signed(request)):
            return _error(403, "SignatureDoesNotMatch")
        parts = unquote(request.url.raw_path).split("/", 3)
        if parts[1:3] != [NAMESPACE, BUCKET]:
            return _error(404, "NoSuchBucket")
        key = parts[3] if len(parts) > 3 else ""
        return self._of_bucket(request, body) if not key else self._of_object(request, key, body)

    async def answer_cdn(self, request: web.Request) -> web.StreamResponse:
        self.told_cdn.append({name.lower(): value for name, value in request.headers.items()})
        if "Authorization" in request.headers:
            return web.Response(status=400, text="Only one auth mechanism allowed")
        data = self.objects.get(self.links.get(request.path.strip("/"), ""))
        if data is None:
            return web.Response(status=404)
        begin, _, end = request.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        some = data[int(begin) : int(end) + 1 if end else None]
        headers = {}
        if "Range" in request.headers:
            headers["Content-Range"] = f"bytes {begin}-{int(begin) + len(some) - 1}/{len(data)}"
        headers |= _describe(data)
        return web.Response(status=206 if "Range" in request.headers else 200, body=some, headers=headers)

    def _of_bucket(self, request: web.Request, body: bytes) -> web.Response:
        if request.method == "POST" and "delete" in request.query:
            keys = [each.text or "" for each in ElementTree.fromstring(body).iter() if each.tag.endswith("Key")]
            for key in keys:
                self.objects.pop(key, None)
            return _xml("DeleteResult", "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys))
        if request.method != "GET" or request.query.get("list-type") != "2":
            return _error(501, "NotImplemented")
        prefix, after = request.query.get("prefix", ""), request.query.get("continuation-token", "")
        found = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        page = found[:PAGE]
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-20T09:30:00.000Z</LastModified>"
            f"<ETag>{escape(_tag(self.objects[key]))}</ETag><Size>{len(self.objects[key])}</Size></Contents>"
            for key in page
        )
        more = len(found) > len(page)
        rows += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        return _xml(
            "ListBucketResult", rows + (f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else "")
        )

    def _of_object(self, request: web.Request, key: str, body: bytes) -> web.Response:
        query = request.query
        if "uploads" in query or "uploadId" in query:
            return self._of_upload(request, key, body)
        if request.method == "PUT":
            wanted, known = request.headers.get("If-Match"), self.objects.get(key)
            if wanted is not None and (known is None or _tag(known) != wanted):
                return _error(412, "PreconditionFailed")
            self.objects[key] = body
            return web.Response(headers={"ETag": _tag(body)})
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return web.Response(status=204)
        if key not in self.objects:
            return _error(404, "NoSuchKey")
        if request.method == "HEAD":
            data = self.objects[key]
            return web.Response(headers={**_describe(data), "Content-Length": str(len(data))})
        self.redirects += 1
        token = secrets.token_hex(8)
        self.links[token] = key
        return web.Response(status=302, headers={"Location": f"{self.cdn_url}/{token}?Signature=of-the-cdn"})

    def _of_upload(self, request: web.Request, key: str, body: bytes) -> web.Response:
        if "uploads" in request.query:
            upload = secrets.token_hex(8)
            self.uploads[upload] = {}
            return _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        parts = self.uploads[request.query["uploadId"]]
        if request.method == "PUT":
            parts[int(request.query["partNumber"])] = body
            return web.Response(headers={"ETag": _tag(body)})
        if request.method == "DELETE":
            return web.Response(status=204)
        self.objects[key] = b"".join(parts[number] for number in sorted(parts))
        return _xml("CompleteMultipartUploadResult", f"<ETag>{escape(_tag(self.objects[key]))}</ETag>")

    def _is_signed(self, request: web.Request) -> bool:
        # Decoded, then written as SigV4 wants it: some clients leave a slash in a query as it is.
        split = (pair.partition("=")[::2] for pair in request.url.raw_query_string.split("&") if pair)
        query = [(_encode(name), _encode(value)) for name, value in split]
        if "X-Amz-Signature" in request.query:
            given = dict(request.query)
            fields = given["X-Amz-Credential"], given["X-Amz-SignedHeaders"], given["X-Amz-Signature"]
            query = [pair for pair in query if pair[0] != "X-Amz-Signature"]
            date, payload = given["X-Amz-Date"], "UNSIGNED-PAYLOAD"
            return self.honours_presigned and self._fits(request, query, *fields, date, payload)
        words = request.headers.get("Authorization", "").partition(" ")[2].split(",")
        told = dict(word.strip().split("=", 1) for word in words if "=" in word)
        if set(told) != {"Credential", "SignedHeaders", "Signature"}:
            return False
        date, payload = request.headers["x-amz-date"], request.headers["x-amz-content-sha256"]
        return self._fits(request, query, told["Credential"], told["SignedHeaders"], told["Signature"], date, payload)

    def _fits(
        self,
        request: web.Request,
        query: list[tuple[str, str]],
        credential: str,
        signed: str,
        signature: str,
        date: str,
        payload: str,
    ) -> bool:
        key_id, _, scope = credential.partition("/")
        headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in signed.split(";"))
        canonical = "\n".join(
            [
                *(request.method, quote(unquote(request.url.raw_path), safe="/-_.~")),
                *("&".join(f"{name}={value}" for name, value in sorted(query)), headers, signed, payload),
            ]
        )
        text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        secret = f"AWS4{SECRET_ACCESS_KEY}".encode()
        for word in scope.split("/"):
            secret = hmac.digest(secret, word.encode(), "sha256")
        return key_id == ACCESS_KEY_ID and hmac.digest(secret, text.encode(), "sha256").hex() == signature


@asynccontextmanager
async def running_hugging_face() -> AsyncIterator[HuggingFace]:
    """Both origins, on free ports."""
    made = HuggingFace()
    runners = []
    try:
        for name, handler in (("url", made.answer), ("cdn_url", made.answer_cdn)):
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", handler)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            setattr(made, name, "http://{}:{}".format(*runner.addresses[0][:2]))
        yield made
    finally:
        for runner in runners:
            await runner.cleanup()


def _encode(word: str) -> str:
    return quote(unquote(word), safe="-_.~")


def _tag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def _describe(data: bytes) -> Mapping[str, str]:
    return {"ETag": _tag(data), "Last-Modified": "Fri, 20 Nov 2026 09:30:00 GMT"}


def _xml(name: str, inside: str) -> web.Response:
    text = f'<?xml version="1.0" encoding="UTF-8"?><{name}>{inside}</{name}>'
    return web.Response(text=text, content_type="application/xml")


def _error(status: int, code: str) -> web.Response:
    text = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")
