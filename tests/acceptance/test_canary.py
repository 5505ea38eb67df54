"""A whole story with keys that can be searched for: nothing that was written, sent or shown holds one of them.

Two markets, faults of every kind, a preemption, a kill -9 and a restart, every command and every route; then logs,
ledger, files, arguments, environments, disks of rented machines and all that went over the wires are searched, for
the keys as they are, percent-encoded, escaped, and in base64 at any alignment.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import pytest

from autopilot.cli.exits import CommandError
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.recording_proxy import RecordingProxy
from tests.acceptance.stage import command, job_text, show, submit, until, without_settings

pytestmark = pytest.mark.slow

VAST_KEY = "sentinel1+vast/account=key&0123456789"
RUNPOD_KEY = "sentinel2+runpod/account=key&9876543210"
SECRET = "sentinel3+user/secret=value&1357924680"
REGISTRY_PASSWORD = "sentinel4+registry/pass=word&1029384756"
ACCOUNT_KEYS = (VAST_KEY, RUNPOD_KEY)
NEVER = (*ACCOUNT_KEYS, REGISTRY_PASSWORD)
"""What neither a machine nor its host, and no file, answer or output, ever gets."""
EXEMPT = ("vastai-key", "runpod-key", "secret_hf", "registry_ghcr")
"""The files that hold the keys, each readable by its owner alone."""


PRIVATE_IMAGE = "ghcr.io/autopilot/demo"
LOGIN = '[registry]\nserver = "ghcr.io"\nuser = "me"\npassword = "ghcr"\n'
TAKES_LOGINS = (b"PUT /api/v0/asks/", b"POST /v2/registries ")
"""The only requests in which a registry's login belongs."""


class CanaryTheatre(Theatre):
    """The daemon reaches the markets, and machines reach the mailbox, through relays that keep all they see."""

    def __init__(self, root: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            mailbox_port = free.getsockname()[1]
        self.market_wire = RecordingProxy(lambda: ("127.0.0.1", urlsplit(self.market_url).port or 0))
        self.mailbox_wire = RecordingProxy(lambda: ("127.0.0.1", mailbox_port))
        settings = {
            "AUTOPILOT_PROVIDERS__VASTAI__BASE_URL": self.market_wire.url,
            "AUTOPILOT_PROVIDERS__RUNPOD__BASE_URL": self.market_wire.url,
            "AUTOPILOT_BLOBS__LISTEN": f"127.0.0.1:{mailbox_port}",
            "AUTOPILOT_BLOBS__PUBLIC_URL": self.mailbox_wire.url,
            "AUTOPILOT_LOG__LEVEL": "debug",
            "PYTHONASYNCIODEBUG": "1",
        }
        market = ["--api-key", VAST_KEY, "--runpod-api-key", RUNPOD_KEY]
        market += ["--private-image", f"{PRIVATE_IMAGE}=me:{REGISTRY_PASSWORD}"]
        both = ("vastai", "runpod")
        super().__init__(root, seed=1, speed=60.0, markets=both, settings=settings, market_options=market)
        for name, value in zip(("vastai-key", "runpod-key"), ACCOUNT_KEYS, strict=True):
            _keep(root / name, value)
        _keep(root / "daemon/autopilot/credentials/secret_hf", SECRET)
        _keep(root / "daemon/autopilot/credentials/registry_ghcr", f"ghcr.io\n{REGISTRY_PASSWORD}")


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


@pytest.fixture
def theatre() -> Iterator[CanaryTheatre]:
    root = Path(tempfile.mkdtemp(prefix="ap-"))
    made = CanaryTheatre(root)
    try:
        yield made
    finally:
        made.stop()
        made.market_wire.close()
        made.mailbox_wire.close()
        shutil.rmtree(root, ignore_errors=True)


def forms(secret: str) -> set[bytes]:
    found = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1]}
    found |= {secret.replace("&", "\\u0026"), secret.replace("&", "&amp;"), secret.encode().hex(), secret[::-1]}
    encoded = {form.encode() for form in found}
    for offset in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * offset + secret.encode())
            encoded.add(text[4 if offset else 0 : -4])
    return encoded


def assert_without(data: bytes | bytearray | str, where: str, *secrets: str) -> None:
    raw = data.encode() if isinstance(data, str) else bytes(data)
    for secret in secrets:
        for form in forms(secret):
            assert form not in raw, (
                f"{where} holds {secret[:9]}… as {form!r}: …{raw[max(0, raw.find(form) - 80) :][:200]!r}"
            )


def processes_of(theatre: Theatre) -> dict[int, Path]:
    """The daemon and all that runs on rented machines: everything but the markets themselves."""
    daemon, market = theatre.pids
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    tree = {daemon}
    roots = {market, daemon}
    while more := {pid for pid, parent in parents.items() if parent in roots | tree and pid not in tree | {market}}:
        tree |= more
    return {pid: Path(f"/proc/{pid}") for pid in tree}


def search_processes(theatre: Theatre) -> int:
    """Arguments and environments, as root of a rented host could read them. Returns how many were searched."""
    searched = 0
    for pid, place in processes_of(theatre).items():
        try:
            arguments, environment = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        except OSError:
            continue
        searched += 1
        assert_without(arguments, f"the arguments of {pid}", *NEVER, SECRET)
        assert_without(environment, f"the environment of {pid}", *NEVER)
        if pid == theatre.pids[0]:
            assert_without(environment, "the daemon's environment", SECRET)
    return searched


def search_files(theatre: Theatre) -> int:
    searched = 0
    for path in theatre.root.rglob("*"):
        if not path.is_file() or path.is_symlink() or path.name in EXEMPT:
            continue
        searched += 1
        data = path.read_bytes()
        if path.name == "market.log":
            continue  # the market's own
        assert_without(data, str(path), *NEVER)
        if path.name != "orders.json":  # where a machine gets it from
            assert_without(data, str(path), SECRET)
    return searched


def search_answers(theatre: Theatre, job_id: str, lease_id: str) -> None:
    paths = [
        *("/v1/status", "/v1/jobs?all=1", f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/why", f"/v1/jobs/{job_id}/logs"),
        *("/v1/events", "/v1/spend", "/v1/budget", "/v1/reconcile", f"/v1/instances/{lease_id}"),
        *(f"/v1/jobs/{job_id}/outputs", "/v1/prices?gpu=RTX+4090", "/v1/drift", "/v1/jobs/none", "/v1/none"),
    ]
    for path in paths:
        try:
            body = theatre.client.get(path)
        except CommandError as problem:
            body = {"error": problem.message, "hint": problem.hint}
        assert_without(json.dumps(body), path, *NEVER, SECRET)


def search_commands(theatre: CanaryTheatre, job_id: str) -> None:
    export = theatre.root / "export.jsonl"
    for words in (
        *(("doctor",), ("orphans",), ("orphans", "--json"), ("show", job_id), ("offers", "--gpu", "RTX 4090:1")),
        *(("secret", "list"), ("db", "export", str(export)), ("sweep", "--from-elsewhere")),
    ):
        done = command(theatre, *words, **environment(theatre))
        assert done.returncode in (0, 1, 3), done.stderr
        assert_without(done.stdout + done.stderr, " ".join(words), *NEVER, SECRET)


def is_over(body: Any) -> bool:
    return body["job"]["status"] == "cancelled" and all(
        lease["state"] in ("gone", "abandoned") for lease in body["leases"]
    )


def environment(theatre: CanaryTheatre) -> dict[str, Any]:
    return without_settings() | theatre.daemon_environment()


def search_wires(theatre: CanaryTheatre) -> None:
    """The key is in the one header that it belongs in, and nowhere else; machines never send or get one."""
    seen: set[str] = set()
    takers: set[bytes] = set()
    for sent in theatre.market_wire.sent:
        data = bytes(sent)
        for key in ACCOUNT_KEYS:
            header = b"Authorization: Bearer " + key.encode()
            seen |= {key} if header.lower() in data.lower() else set()
            lines = data.split(b"\r\n")
            kept = [line for line in lines if line.lower() != header.lower()]
            assert_without(b"\r\n".join(kept), "what was sent to the market", key)
        assert_without(data, "what was sent to the market", SECRET)
        takers |= _search_logins(data)
    assert takers == set(TAKES_LOGINS), "both markets got the login, each in its way"
    assert seen == set(ACCOUNT_KEYS), "the keys were never used: this test would find nothing"
    for answered in theatre.market_wire.answered:
        assert_without(answered, "what the market answered", *NEVER, SECRET)
    for passed in (*theatre.mailbox_wire.sent, *theatre.mailbox_wire.answered):
        assert_without(passed, "the mailbox's traffic", *NEVER)
    assert any(SECRET.encode() in bytes(answer) for answer in theatre.mailbox_wire.answered), "no machine got it"
    assert not any(SECRET.encode() in bytes(sent) for sent in theatre.mailbox_wire.sent)


def _search_logins(data: bytes) -> set[bytes]:
    """Of one connection: the requests that bear a registry's login. It stands in no other."""
    bearing: set[bytes] = set()
    starts = [found.start() for found in re.finditer(rb"(?:GET|PUT|POST|DELETE) /\S* HTTP/1\.1\r\n", data)]
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        request = data[start:end]
        taker = next((each for each in TAKES_LOGINS if request.startswith(each)), None)
        if taker is None:
            assert_without(request, "what was sent to the market", REGISTRY_PASSWORD)
        elif REGISTRY_PASSWORD.encode() in request:
            bearing.add(taker)
    return bearing


def reprice_runpod(theatre: Theatre, price: str) -> None:
    """Above vast.ai's, or below."""
    for machine in theatre.emu("runpod/machines")["machines"]:
        if machine["gpu_type_id"] == "NVIDIA GeForce RTX 4090":
            theatre.emu("runpod/floor", {"machine_id": machine["machine_id"], "price": price})


FAULTS: list[dict[str, Any]] = [
    *({"on": on, "kind": kind} for on in ("list", "user") for kind in ("http_500", "html", "bad_json", "reset")),
    {"on": "create", "kind": "effect_then_reset"},
    {"on": "destroy", "kind": "http_500", "times": 2},
    {"on": "bid", "kind": "effect_then_500"},
]


def test_no_key_is_ever_written_or_sent_where_it_does_not_belong(theatre: CanaryTheatre) -> None:
    theatre.start_market()
    reprice_runpod(theatre, "0.45")
    theatre.start_daemon()
    for fault in FAULTS:
        theatre.emu("fault", dict(fault))
    job_id = submit(
        theatre, job_text(100_000, image=f'image = "{PRIVATE_IMAGE}:1"') + LOGIN + '\n[secrets]\nHF_TOKEN = "hf"\n'
    )

    def at_work() -> Any:
        job = show(theatre, job_id)["job"]
        return job["main"] if job["status"] == "running" and job["checkpoint"] else None

    lease = until(at_work, "a running job with a checkpoint")
    assert search_processes(theatre) >= 3
    assert any(SECRET.encode() in environ for environ in _environs(theatre)), "the job did not get its secret"
    search_answers(theatre, job_id, lease["id"])
    search_commands(theatre, job_id)
    reprice_runpod(theatre, "0.20")
    theatre.emu("host", {"machine_id": int(lease["machine_id"]), "state": "vanished"})
    until(lambda: (show(theatre, job_id)["job"]["main"] or lease)["id"] != lease["id"], "another machine")
    theatre.kill_daemon()
    theatre.start_daemon()
    until(at_work, "the job runs there")
    search_processes(theatre)
    assert command(theatre, "cancel", job_id).returncode == 0
    until(lambda: is_over(show(theatre, job_id)), "the end of the job and its machines")
    search_answers(theatre, job_id, lease["id"])
    assert search_files(theatre) > 20
    search_wires(theatre)


def _environs(theatre: Theatre) -> list[bytes]:
    found = []
    for place in processes_of(theatre).values():
        try:
            found.append((place / "environ").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("secret", [*NEVER, SECRET])
def test_the_search_finds_every_form(secret: str) -> None:
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    odd = base64.urlsafe_b64encode(f"ab{secret}cdefgh".encode()).decode()
    for text in (
        secret,
        f"https://host/?key={quote(secret, safe='')}",
        f"Basic {basic}",
        odd,
        json.dumps({"k": secret}),
    ):
        with pytest.raises(AssertionError, match="holds sentinel"):
            assert_without(f"before {text} after", "a text", secret)
    assert_without("nothing of the kind", "a text", secret)
