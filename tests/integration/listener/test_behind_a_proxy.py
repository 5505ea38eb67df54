"""The page behind a real nginx and a real Caddy, configured as the docs say, with something that signs people in."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.integration.listener.test_proxy_port import NAME, PUBLIC, SECRET, a_proxy

_PLACES = "/usr/sbin:/usr/bin:/sbin:/bin"
DOCS = Path(__file__).parents[3] / "docs/how-to/reach-it-over-the-network.md"

pytestmark = pytest.mark.slow


def _recipe(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found
    return found[1]


async def _sign_in(request: web.Request) -> web.Response:
    """A cookie says who somebody is; here it is the name itself. As oauth2-proxy answers, or Authelia."""
    name = request.cookies.get("who")
    if request.path not in ("/oauth2/auth", "/api/authz/forward-auth"):
        return web.Response(text="sign in here")
    if name is None:
        return web.Response(status=401, text="sign in here")
    header = "Remote-User" if request.path.startswith("/api/") else "X-Auth-Request-Email"
    return web.Response(headers={header: name} if name else {})


@asynccontextmanager
async def _serving_sign_in() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{any:.*}", _sign_in)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _configure_nginx(root: Path, sign_in: str, autopilot: str) -> list[str]:
    locations = _recipe("nginx").replace("127.0.0.1:4180", sign_in).replace("http://127.0.0.1:8483", autopilot)
    locations = locations.replace("/etc/nginx/autopilot-secret.conf", str(root / "secret.conf"))
    (root / "secret.conf").write_text(f'proxy_set_header Autopilot-Proxy-Secret "{SECRET}";\n')
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{each}_temp_path {root}/{each};" for each in kinds)
    server = f"server {{ listen unix:{root}/n.sock; server_name {NAME}; {locations} }}"
    (root / "nginx.conf").write_text(
        f"daemon off; pid {root}/pid; error_log {root}/errors; events {{}}\n"
        f"http {{ access_log off; {places} {server} }}\n"
    )
    return ["-p", str(root), "-c", str(root / "nginx.conf")]


def _configure_caddy(root: Path, sign_in: str, autopilot: str) -> list[str]:
    """Without TLS, for which it would ask an authority on the internet."""
    site = _recipe("caddyfile").replace(f"{NAME} {{", f"http://{NAME} {{\n    bind unix/{root}/n.sock", 1)
    site = site.replace("127.0.0.1:9091", sign_in).replace("127.0.0.1:8483", autopilot.removeprefix("http://"))
    (root / "Caddyfile").write_text(f"{{\n    admin off\n}}\n{site}")
    return ["run", "--config", str(root / "Caddyfile"), "--adapter", "caddyfile"]


CONFIGURE = {"nginx": _configure_nginx, "caddy": _configure_caddy}


@asynccontextmanager
async def _running(program: str, arguments: list[str], root: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """It listens on a socket in ``root``."""
    env = os.environ | {"AUTOPILOT_PROXY_SECRET": SECRET, "HOME": str(root), "XDG_DATA_HOME": str(root)}
    with (root / "said").open("wb") as said:
        process = await asyncio.create_subprocess_exec(program, *arguments, env=env, stderr=said)
    try:
        while not (root / "n.sock").exists():
            assert process.returncode is None, (root / "said").read_text()
            await asyncio.sleep(0.05)
        connector = aiohttp.UnixConnector(str(root / "n.sock"))
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield http
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.parametrize("name", CONFIGURE)
async def test_the_recipe_admits_signed_in_users_and_no_forged_header(name: str) -> None:
    program = shutil.which(name, path=_PLACES) or shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed (Debian: {name})")
    with tempfile.TemporaryDirectory(prefix="ap-") as directory:
        root = Path(directory)
        async with a_proxy(root, is_tcp=True) as proxy, _serving_sign_in() as sign_in:
            arguments = CONFIGURE[name](root, sign_in, proxy.base)
            async with _running(program, arguments, root) as http:

                async def get(path: str, who: str | None, **headers: str) -> tuple[int, str]:
                    sent = PUBLIC | headers | ({} if who is None else {"Cookie": f"who={who}"})
                    async with http.get(f"http://{NAME}{path}", headers=sent) as answer:
                        return answer.status, await answer.text()

                status, text = await get("/", None, **{"Remote-User": "chief"})
                assert (status in (200, 401), text) == (True, "sign in here")
                forged = {"Remote-User": "chief", "Autopilot-Proxy-User": "chief"}
                for headers in ({}, forged):
                    status, me = await get("/v1/page", "reader", **headers)
                    assert (status, '"proxy:reader"' in me) == (200, True), (headers, me)
                status, me = await get("/v1/page", "reader", Remote_User="chief")
                refused = name == "caddy" and status == 401  # nginx drops such a header, Caddy hands it on
                assert refused or '"proxy:reader"' in me, (status, me)
                status, page = await get("/", "maker@example.org")
                assert (status, "Your scope is submit, as maker@example.org" in page) == (200, True)
                assert (await get("/", "mallory"))[0] == 403
                for headers in ({}, {"Remote-User": "chief"}):
                    assert (await get("/", "", **headers))[0] == 401, "the proxy named no user"
                assert (await get("/", "reader", Origin="https://evil.example"))[0] == 403
                sent = PUBLIC | {"Cookie": "who=reader"}
                async with http.get(f"http://{NAME}/stream/now", headers=sent) as answer:
                    assert await answer.content.readline() == b"event: state\n", "it is not kept back"
