"""The page behind a real nginx, configured as the docs say, with something that signs in as oauth2-proxy does."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from test_proxy_port import NAME, PUBLIC, SECRET, a_proxy

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin") or shutil.which("nginx")
DOCS = Path(__file__).parents[3] / "docs/how-to/reach-it-over-the-network.md"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx)")]


async def _sign_in(request: web.Request) -> web.Response:
    """A cookie says who somebody is; here it is the name itself."""
    if request.path != "/oauth2/auth":
        return web.Response(text="sign in here")
    name = request.cookies.get("who")
    return web.Response(status=401) if name is None else web.Response(headers={"X-Auth-Request-Email": name})


@asynccontextmanager
async def _serving_sign_in() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/oauth2/{any}", _sign_in)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _nginx(root: Path, locations: str) -> AsyncIterator[aiohttp.ClientSession]:
    """It listens on a socket in ``root``."""
    (root / "secret.conf").write_text(f'proxy_set_header Autopilot-Proxy-Secret "{SECRET}";\n')
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{each}_temp_path {root}/{each};" for each in kinds)
    server = f"server {{ listen unix:{root}/n.sock; server_name {NAME}; {locations} }}"
    (root / "nginx.conf").write_text(
        f"daemon off; pid {root}/pid; error_log {root}/errors; events {{}}\n"
        f"http {{ access_log off; {places} {server} }}\n"
    )
    assert NGINX is not None
    process = await asyncio.create_subprocess_exec(NGINX, "-p", str(root), "-c", str(root / "nginx.conf"))
    try:
        async with asyncio.timeout(60):
            while not (root / "n.sock").exists():
                assert process.returncode is None, (root / "errors").read_text()
                await asyncio.sleep(0.05)
        connector = aiohttp.UnixConnector(str(root / "n.sock"))
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield http
    finally:
        process.terminate()
        await process.wait()


async def test_the_recipe_lets_in_whoever_has_signed_in_and_nobody_by_a_header_of_their_own() -> None:
    found = re.search(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        async with a_proxy(root, is_tcp=True) as proxy, _serving_sign_in() as sign_in:
            locations = found[1].replace("127.0.0.1:4180", sign_in).replace("http://127.0.0.1:8483", proxy.base)
            locations = locations.replace("/etc/nginx/autopilot-secret.conf", str(root / "secret.conf"))
            async with _nginx(root, locations) as http:

                async def get(path: str, who: str | None, **headers: str) -> tuple[int, str]:
                    sent = PUBLIC | headers | ({} if who is None else {"Cookie": f"who={who}"})
                    async with http.get(f"http://nginx{path}", headers=sent) as answer:
                        return answer.status, await answer.text()

                assert await get("/", None, **{"Remote-User": "chief"}) == (200, "sign in here")
                forged = {"Remote-User": "chief", "Remote_User": "chief", "Autopilot-Proxy-User": "chief"}
                for headers in ({}, forged):
                    status, me = await get("/v1/page", "reader", **headers)
                    assert (status, '"proxy:reader"' in me) == (200, True), me
                status, page = await get("/", "maker@example.org")
                assert (status, "Your scope is submit, as maker@example.org" in page) == (200, True)
                assert (await get("/", "mallory"))[0] == 403
                assert (await get("/", ""))[0] == 401, "it sends no header that is empty"
                assert (await get("/", "reader", Origin="https://evil.example"))[0] == 403
                sent = PUBLIC | {"Cookie": "who=reader"}
                async with http.get("http://nginx/stream/now", headers=sent) as answer, asyncio.timeout(60):
                    assert await answer.content.readline() == b"event: state\n", "it is not kept back"
