"""What the machine's ``systemctl``, ``poweroff``, ``nvidia-smi``, ``apt-get`` and ``iptables`` do.

Standard library only. The first argument is the name under which it was called. What it cannot do itself it asks of
the machine's first process, by one line on a socket; the answer is the exit code.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time


def main() -> int:
    name, *words = sys.argv[1:]
    with open(os.environ["AUTOPILOT_SANDBOX_VM"]) as file:
        config = json.load(file)
    if name == "nvidia-smi":
        for number in range(int(config["faults"].get("gpus", config["num_gpus"]))):
            print(f"GPU {number}: sandbox (UUID: GPU-{number})")
        return 0
    if name == "apt-get":
        return install(words, config["faults"].get("apt", "ok"))
    if name in ("systemctl", "poweroff"):
        return ask([name, *words])
    return 0


def install(words: list[str], fault: str) -> int:
    if fault == "hang":
        time.sleep(3600)
    if fault == "fail":
        print("E: Unable to locate package")
        return 100
    return ask(["installed", words[-1]]) if "install" in words else 0


def ask(words: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(os.environ["AUTOPILOT_SANDBOX_INIT"])
        first.sendall(json.dumps(words).encode() + b"\n")
        return int(first.makefile().readline() or 1)


if __name__ == "__main__":
    sys.exit(main())
