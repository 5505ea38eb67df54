"""``python -m autopilot_lab.sandbox``: the sandbox markets as a process of its own. SIGTERM or SIGINT stops it."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from autopilot.clock import ScaledClock, SystemClock
from autopilot.domain.errors import UserError
from autopilot.ports.clock import Clock
from autopilot_lab.sandbox.config import SandboxConfig
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.runpod.exchange import Mode
from autopilot_lab.sandbox.server import running_sandbox
from autopilot_lab.sandbox.zoo import PRESETS


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.state_dir is not None:
        return _run(options, options.state_dir)
    with tempfile.TemporaryDirectory(prefix="autopilot-sandbox-") as state_dir:
        return _run(options, Path(state_dir))


def _run(options: argparse.Namespace, state_dir: Path) -> int:
    config = SandboxConfig(
        state_dir=state_dir,
        seed=options.seed,
        host=options.host,
        port=options.port,
        api_keys=tuple(options.api_key or ("sandbox-key",)),
        credit=options.credit,
        duds=PRESETS[options.preset] if options.duds is None else options.duds,
        churn=options.churn,
        enforce_rate_limits=not options.no_rate_limits,
        real_processes=not options.no_processes,
        ssh=options.ssh,
        ssh_names=options.ssh_names,
        clearing_is_visible=options.clearing_is_visible,
        private_images=tuple(options.private_image or ()),
        runpod_keys=tuple(options.runpod_api_key or ("runpod-sandbox-key",)),
        runpod_balance=options.runpod_balance,
        runpod_mode=options.runpod_mode,
        runpod_billing_lag_s=options.runpod_billing_lag,
        mithril_keys=tuple(options.mithril_api_key or ("mithril-sandbox-key",)),
        nebius_port=options.nebius_port,
        nebius_keys=tuple(options.nebius_api_key or ("nebius-sandbox-key",)),
    )
    clock: Clock = SystemClock() if options.speed == 1 else ScaledClock(_origin(state_dir), options.speed)
    try:
        asyncio.run(serve(config, clock, options.port_file))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


async def serve(config: SandboxConfig, clock: Clock, port_file: Path | None = None) -> None:
    """Run until SIGTERM or SIGINT; the port is written to ``port_file`` once the sandbox listens."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with running_sandbox(config, clock) as sandbox:
        if port_file is not None:
            unfinished = port_file.with_name(port_file.name + ".tmp")
            unfinished.write_text(sandbox.url.rpartition(":")[2])
            unfinished.replace(port_file)
        print(f"sandbox ready at {sandbox.url}", flush=True)
        await stopped.wait()


def _origin(state_dir: Path) -> datetime:
    """When the scaled clock began: written once, so that a restart goes on in the same time."""
    path: Path = state_dir / "clock-origin"
    if path.exists():
        return datetime.fromisoformat(path.read_text())
    origin = datetime.now(UTC)
    state_dir.mkdir(parents=True, exist_ok=True)
    path.write_text(origin.isoformat())
    return origin


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"a share lies between 0 and 1, not at {share:g}")
    return share


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autopilot_lab.sandbox", description=__doc__)
    parser.add_argument("--state-dir", type=Path, help="where disks are kept (default: a temporary directory)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--port-file", type=Path, help="write the port here once it listens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=float, default=1.0, help="market seconds per real second")
    parser.add_argument("--credit", type=Decimal, default=Decimal(100), help="dollars at vast.ai")
    parser.add_argument("--api-key", action="append", help="accepted key; may be repeated (default: sandbox-key)")
    parser.add_argument("--runpod-api-key", action="append", help="the same for RunPod (default: runpod-sandbox-key)")
    parser.add_argument(
        "--mithril-api-key", action="append", help="the same for Mithril (default: mithril-sandbox-key)"
    )
    parser.add_argument("--nebius-api-key", action="append", help="the same for Nebius (default: nebius-sandbox-key)")
    parser.add_argument(
        "--nebius-port", type=int, help="port of Nebius's gRPC services (default: none); 0: any free one"
    )
    parser.add_argument("--runpod-balance", type=Decimal, default=Decimal(100), help="dollars at RunPod")
    parser.add_argument("--runpod-billing-lag", type=float, default=3600.0, help="market seconds that billing lags")
    parser.add_argument("--runpod-mode", choices=list(Mode), default=Mode.NORMAL, help="what RunPod offers on spot")
    parser.add_argument(
        "--private-image",
        action="append",
        type=PrivateImage.parse,
        help="an image that only a login pulls, as IMAGE=USER:PASSWORD; may be repeated",
    )
    parser.add_argument(
        "--preset",
        choices=list(PRESETS),
        default="plain",
        help="zoo: hosts differ in driver, processor, memory, links and place, and 30%% never boot; zoo-stress: 58%%",
    )
    parser.add_argument(
        "--duds", type=_share, metavar="SHARE", help="of the hosts that never boot, from 0 to 1: a zoo with so many"
    )
    parser.add_argument("--churn", action="store_true", help="floors move, rivals come and go")
    parser.add_argument("--no-rate-limits", action="store_true")
    parser.add_argument("--no-processes", action="store_true", help="instances run nothing")
    parser.add_argument(
        "--ssh", action="store_true", help="vast.ai's instances have sshd and a network of their own (as root)"
    )
    parser.add_argument(
        "--ssh-names", action="store_true", help="their addresses are sshN.vast.ai, which have to lead to --host"
    )
    parser.add_argument("--clearing-is-visible", action="store_true", help="contested chunks show what would win")
    return parser


if __name__ == "__main__":
    sys.exit(main())
