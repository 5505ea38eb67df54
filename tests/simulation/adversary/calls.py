"""What the adversary may ask for: every call of the API, with values that are right, wrong, huge, or of others."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.simulation.ground.scenario import GPU

MANY = 10_000
"""Zeros and letters in what is too long."""
AMOUNTS = (
    "$0.05", "$0.30", "$1", "$1.000000001", "$5", "$999999999999", "$1e400", "-$1", "0", "none", "$" + "9" * MANY,
    "NaN", "Infinity", "$0.0000000000000000001", "",
)  # fmt: skip
SPANS = ("20m", "3h", "+6h", "none", "1s", "9999999d", "-1h", "2028-03-01T00:00:00Z", "0", "1e9h")
JUNK = ("", "{", "null", "[]", '"x"', '{"toml": 1}', "[" * MANY, '{"toml": "' + "x" * 300_000 + '"}', "\x00\xff")


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    body: bytes = b""
    key: str = ""
    """Its Idempotency-Key; empty: it is sent without."""


def a_call(method: str, path: str, said: object = None, key: str = "") -> Call:
    return Call(method, path, b"" if said is None else json.dumps(said).encode(), key)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file as this adversary writes them."""

    name: str = "j"
    work_s: int = 3600
    total: str | None = "$0.90"
    policy: str = "auto"
    more: str = ""

    def toml(self) -> str:
        lines = [
            f'name = "{self.name}"',
            'image = "some/image:1"',
            f'run = "work {self.work_s}"',
            "[resources]",
            f'gpu = "{GPU}"',
            "[spot]",
            f'policy = "{self.policy}"',
            "[checkpoint]",
            'path = "ckpt"',
            'interval = "5m"',
        ]
        if self.total is not None:
            lines += ["[budget]", f'total = "{self.total}"']
        return "\n".join([*lines, self.more, ""])


def submit(job: JobFile, *, again: bool = True, plan: str = "", key: str = "", dry_run: bool = False) -> Call:
    said = {"toml": job.toml(), "min_probability": 0, "again": again, "plan": plan, "dry_run": dry_run}
    return a_call("POST", "/v1/jobs", said, key)


def draw_job(rng: random.Random) -> JobFile:
    """Mostly one that is accepted."""
    job = JobFile(
        name=rng.choice(("train", "j", "x" * 60)),
        work_s=rng.choice((60, 1200, 7200, 36_000, 10**7)),
        total=rng.choice(("$0.20", "$0.50", "$1", "$1", "$40", "$100000")),
        policy=rng.choice(("auto", "spot", "on-demand")),
        more=rng.choice(("", "", "", '[debug]\nhold = "5h"', '[work]\nestimate = "2h"', "[retry]\nmax_attempts = 9")),
    )
    if rng.random() < 0.75:
        return job
    return replace(
        job,
        total=rng.choice((*AMOUNTS, None)),
        more=rng.choice(
            (
                '[secrets]\nTOKEN = "aws"',
                '[secrets]\nTOKEN = "hf"',
                '[registry]\nserver = "docker.io"\nuser = "u"\npassword = "aws"',
                '[notify]\nnames = ["unknown"]',
                '[deadline]\nwithin = "99999999h"',
                '[code]\npath = "."',
                "[budget]",
                "x = " + "1" * MANY,
            )
        ),
    )


def draw_change(rng: random.Random, reference: str, key: str = "") -> Call:
    names = ("budget", "max_price", "max_hourly", "max_rate", "deadline", "run", "owner")
    wish: dict[str, object] = {
        name: rng.choice(SPANS if name == "deadline" else AMOUNTS) for name in rng.sample(names, rng.choice((1, 1, 2)))
    }
    return a_call("PATCH", f"/v1/jobs/{reference}", wish | {"min_probability": 0}, key)


def draw_call(rng: random.Random, mine: Sequence[str], others: Sequence[str], plans: Sequence[str]) -> Call:
    """Anything. ``mine``, ``others``: ids of jobs; ``plans``: that wait for a person."""
    reference = rng.choice([*mine[-4:], *mine[-4:], *others[-2:], "x" * rng.choice((1, MANY)), "%00", "..", "1"])
    key = rng.choice(("", "", "k1", "k2", "k" * 300))
    job = f"/v1/jobs/{reference}"
    plan = rng.choice([*plans, "none"])
    sha256 = rng.choice(("0" * 64, "x"))
    makers = (
        lambda: submit(draw_job(rng), again=rng.random() < 0.8, plan=rng.choice(("", plan)), key=key),
        lambda: submit(draw_job(rng), dry_run=True),
        lambda: draw_change(rng, reference, key),
        lambda: a_call("POST", f"{job}/{rng.choice(('stop', 'cancel', 'resume', 'release'))}", key=key),
        lambda: a_call("POST", f"{job}/resume", {"from_checkpoint": rng.choice(("1", "-1", "x"))}, key),
        lambda: a_call("GET", job + rng.choice(("", "/why", "/outputs", "/code", "/ssh", "/life"))),
        lambda: a_call("POST", f"{job}/exec", {"command": "id", "timeout_s": rng.choice((1, -1, 10**18))}),
        lambda: a_call("GET", rng.choice(("/v1/jobs?all=true", "/v1/budget", "/v1/spend", "/v1/status", "/metrics"))),
        lambda: a_call("GET", rng.choice(("/v1/tokens", "/v1/plans", "/v1/reconcile", "/v1/drift", "/v1/nothing"))),
        lambda: a_call("POST", f"/v1/plans/{plan}/confirm"),
        lambda: a_call("POST", "/v1/tokens", {"name": f"mine{rng.random()}", "scope": "admin", "allow": ""}),
        lambda: a_call("POST", f"/v1/tokens/{rng.choice(('root', 'a0', 'a1'))}/revoke", {"park": True}),
        lambda: a_call("POST", "/v1/markets/vastai/certification", {"budget": "$1", "gpus": []}),
        lambda: a_call("POST", "/v1/offers", {"gpu": f"{GPU}:{rng.choice(('1', '-1', '9' * 30))}"}),
        lambda: Call(rng.choice(("PUT", "GET")), f"/v1/code/{sha256}", b"junk" * 10),
        lambda: Call("POST", "/v1/jobs", rng.choice(JUNK).encode("latin-1"), key),
        lambda: Call("PATCH", job, rng.choice(JUNK).encode("latin-1"), key),
    )
    weights = (8, 1, 5, 6, 2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1)
    return rng.choices(makers, weights)[0]()
