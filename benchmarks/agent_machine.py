"""What ``agent`` measures, as a process of its own: WHAT REQUEST HOME FILES, or ``steps`` SECONDS. Prints JSON."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SLOW_BYTES_PER_S, WORKERS = 50e6, 4


def steps(seconds: float) -> dict[str, Any]:
    """Of a training that goes on for so long: when each began, how long it took, and its processor time."""
    import numpy as np

    rng = np.random.default_rng(1)
    weights, batch = rng.standard_normal((512, 512)), rng.standard_normal((128, 512))
    taken = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        cpu_began = time.process_time()
        for _ in range(4):
            batch = np.tanh(batch @ weights) / 2
        taken.append((began, time.monotonic() - began, time.process_time() - cpu_began))
    return {"steps": taken}


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:"))) / 1000


def act(what: str, request: dict[str, Any], home: Path, files: Path) -> dict[str, Any]:
    from autopilot.agent.shipped import transfer, web
    from autopilot.agent.shipped.keeper import Keeper
    from autopilot.agent.shipped.log import Log
    from autopilot.agent.shipped.memory import Memory

    home.mkdir(parents=True, exist_ok=True)
    channel = web.Web()
    keeper = Keeper(str(home), channel, Log(1), Memory(str(home), str(home / "c")), lambda: request["orders"], 1.0)
    if what == "checkpoint_slowly":
        slow_down(web)
        transfer.step_aside()  # as in the agent, where it is a thread of its own
    idle, cpu_began, began = peak_mb(), time.process_time(), time.perf_counter()
    if what.startswith("checkpoint"):
        keeper.checkpoint(str(files), 1, None, ended_well=True)  # it does not wait until the files have been quiet
    elif what == "restore":
        keeper.restore(str(files))
    else:
        files.mkdir(exist_ok=True)
        plain = plain_put if what == "plain_put" else plain_get
        for i, url in enumerate(request[what.removeprefix("plain_")]):
            plain(url, files / f"shard-{i}")
    seconds = time.perf_counter() - began
    spent = {"cpu_s": time.process_time() - cpu_began}
    return {**spent, "seconds": seconds, "bytes_sent": channel.bytes_sent, "idle_mb": idle, "peak_mb": peak_mb()}


def slow_down(web: Any) -> None:
    """All uploads together at the speed of a usual line."""
    send = web.Web.send

    def slowly(self: Any, url: str, body: Any, size: int, within_s: float | None = None) -> None:
        began = time.perf_counter()
        send(self, url, body, size, within_s)
        time.sleep(max(WORKERS * size / SLOW_BYTES_PER_S - (time.perf_counter() - began), 0))

    web.Web.send = slowly


def connected(url: str) -> tuple[http.client.HTTPConnection, str]:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.netloc, blocksize=256 << 10), f"{parts.path}?{parts.query}"


def plain_put(url: str, path: Path) -> None:
    connection, target = connected(url)
    with path.open("rb") as file:
        connection.request("PUT", target, file, {"Content-Length": str(path.stat().st_size)})
        assert connection.getresponse().status == 200


def plain_get(url: str, path: Path) -> None:
    connection, target = connected(url)
    connection.request("GET", target)
    response = connection.getresponse()
    assert response.status == 200
    with path.open("wb") as file:
        while block := response.read(256 << 10):
            file.write(block)


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        answer = steps(float(sys.argv[2]))
    else:
        what, request_path, home_path, files_path = sys.argv[1:]
        answer = act(what, json.loads(Path(request_path).read_text()), Path(home_path), Path(files_path))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)
