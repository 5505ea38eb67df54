"""``autopilot resume JOB --from-store``: what the store holds is told, and asked about, before it is taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from autopilot.answers.jobs import FoundInStore, FoundMachine, JobAnswer, Resumed
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.words import text

OVER = ("gone", "abandoned")


def resume(client: JsonClient, job: str, *, dry_run: bool, yes: bool) -> int:
    where = job_path(job, "resume")
    # All of a checkpoint is read to verify it, and each answer waits for that a while.
    while (store := read(Resumed, client.post(where, {"from_store": True, "dry_run": True})).store) is None:
        pass
    for line in tell(store):
        print(line)
    if dry_run:
        return Exit.OK
    if not yes:
        _ask()
    found = read(JobAnswer, client.act_once("POST", where, {"from_store": True})).job
    name = text.plain(found.name)
    print(
        f"{name} ({text.plain(found.id)}) resumes from the store in the next ticks."
        f" A machine of it that is still there is watched for half an hour first. autopilot show {name} says how far"
        " it is."
    )
    return Exit.OK


def tell(store: FoundInStore) -> Iterator[str]:
    chosen = store.checkpoint
    if chosen is None:
        yield "checkpoint: the store has none that is newer than the ledger's"
    else:
        age = "which the lost ledger had not verified"
        if chosen.age_s is not None:
            age = f"verified {text.span(chosen.age_s)} ago"
        where = f"{text.plain(chosen.lease_id)}.{chosen.number}"
        size = text.size(chosen.size_bytes)
        yield f"checkpoint: {where}, step {chosen.step}, {size}, {age}"
    for machine in store.machines:
        yield f"machine: {_machine(machine)}"
    for each in store.passed_over:
        number = "" if each.number is None else f".{each.number}"
        yield f"passed over: {text.plain(each.lease_id)}{number}: {text.plain(each.why)}"


def _machine(machine: FoundMachine) -> str:
    state = "gone" if machine.state in OVER else "its last word was that it is " + text.words(machine.state)
    place = f"{text.plain(machine.provider)} {text.plain(machine.instance_id or '(no instance)')}"
    rented = f"{machine.rented_at:%Y-%m-%d %H:%M}"
    return f"{text.plain(machine.lease_id)}, {place}, since {rented} UTC, {text.per_hour(machine.per_hour)}, {state}"


def _ask() -> None:
    """Raises ``CommandError`` unless the user confirms."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(Exit.USAGE, "cannot ask for confirmation without a terminal", hint="--yes skips the prompt")
    if input("Take this into the ledger and resume from it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError(Exit.USAGE, "nothing was changed")
