"""``autopilot run``: a command in the directory here, on a rented machine, without a job file."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.jobs import Job, JobLife
from autopilot.cli import outcomes, plan, rehearsed, starting
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.guess import Guess, guess
from autopilot.cli.host_options import ANY_HOST, HostOptions
from autopilot.cli.new import name_of
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.config.client_file import read_client_file
from autopilot.config.draft import DEFAULT_GPU, DEFAULT_IMAGE, Draft
from autopilot.domain.errors import UserError
from autopilot.words import text

KEPT = "outputs"
"""What is brought back beside the checkpoint."""
PULLED = "*-outputs"
"""Directories of earlier runs' results: they are not sent along."""
SOURCE = "autopilot run"

_NAMED_LIKE_KEYS = re.compile(
    r"(?:hf_|sk-|ghp_|github_pat_|glpat-|AKIA|xox[bap]-|wandb_|rpa_)[\w-]{12,}|[0-9a-f]{40,}|eyJ[\w-]{20,}\."
)
_KEYS = re.compile(
    r"(?:hf_|sk-|ghp_|github_pat_|glpat-|AKIA|xox[bap]-|wandb_|rpa_)[\w-]{12,}|[0-9a-f]{40,}|eyJ[\w-]{20,}\."
)


def run(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    gpu: str | None = None,
    image: str | None = None,
    budget: str | None = None,
    within: str | None = None,
    estimate: str | None = None,
    checkpoint: str | None = None,
    disk: str = "",
    host: HostOptions = ANY_HOST,
    name: str | None = None,
    env: list[str] | None = None,
    secret: list[str] | None = None,
    save: Path | None = None,
    min_probability: float = 0.8,
    again: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative="")] = False,
) -> int:
    """Run a command from this directory on a rented machine: plan, confirm, submit, follow, download the results.

    The directory is uploaded as [code]. `setup` follows requirements.txt, pyproject.toml or environment.yml. What the
    command leaves in outputs and at its checkpoint is downloaded to NAME-outputs. The exit code is the job's outcome.
    Where your daemon does not run, it is started.

    Parameters
    ----------
    command
        The command, after --: autopilot run --gpu 4090 --budget 2 -- python train.py --lr 3e-4.
    gpu
        GPU model and count, like 4090, "A100 80GB:2" or "4090 | 3090"; default: [defaults] gpu of client.toml.
    image
        Container image; default: [defaults] image of client.toml, then PyTorch's.
    budget
        Maximum cost, like 2 or 2.50; default: [defaults] budget of client.toml.
    within
        Deadline from now, like 12h; needs --estimate.
    estimate
        Run time without interruptions, like 3h.
    checkpoint
        Path that the command saves to and resumes from; default: the path that its programs name. "" for none.
    disk
        Size of the rented disk, like 60GB.
    name
        Name of the job; default: the directory's name.
    env
        NAME=VALUE for the command's environment; can be repeated.
    secret
        NAME=STORED: the variable, and the name of a secret stored with autopilot secret set.
    save
        Also write the generated job file to this path.
    min_probability
        Refuse a job with a deadline if its chance to finish in time, money aside, is lower than this.
    again
        Submit even if an identical job of yours is still open.
    yes
        Skip the prompt; needs a budget.
    detach
        Submit and exit without following the output.
    """
    if not command:
        raise UserError("run needs a command", hint="autopilot run --gpu 4090 --budget 2 -- python train.py")
    directory = Path.cwd()
    guessed = guess(directory)
    draft = _make_draft(guessed, command, name or name_of(directory), gpu, image, budget)
    where = guessed.checkpoint if checkpoint is None else checkpoint
    draft = replace(
        draft,
        disk=disk,
        host=host.to_keys(),
        within=within or "",
        estimate=estimate or "",
        checkpoint=where,
        outputs=(KEPT, where) if where else (KEPT,),
        env=_read_pairs(env or [], "env", check=_refuse_key),
        secrets=_read_pairs(secret or [], "secret"),
    )
    if yes and not draft.budget:
        raise UserError("-y without a budget could spend all that the account's limits allow", hint="add --budget 2")
    toml = draft.write(str(save or "job.toml"))
    client = starting.connect()
    body = plan.ask_of(client, toml, SOURCE, directory, min_probability, dry_run=True)
    plan.show(client, body)
    named = rehearsed.name_once(toml, SOURCE, directory)
    for sentence in (guessed.said[1], *(guessed.said[2:] if checkpoint is None else ()), *named):
        print(sentence)
    if (code := plan.exit_of(body)) != Exit.OK:
        return code
    if save is not None:
        _save(save, toml)
    if not yes and not _is_confirmed(draft):
        print("nothing was submitted")
        return Exit.OK
    made = plan.ask_of(client, toml, SOURCE, directory, min_probability, dry_run=False, again=again)
    (job,) = plan.jobs_of(made)
    print(f"submitted {text.plain(job.name)} ({text.plain(job.id)})")
    if detach:
        print(f"follow it: autopilot logs {text.plain(job.name)} -f")
        return Exit.OK
    return _follow(client, job)


def _make_draft(
    guessed: Guess, command: Sequence[str], name: str, gpu: str | None, image: str | None, budget: str | None
) -> Draft:
    defaults = read_client_file()
    dollars = budget or defaults.budget
    return Draft(
        name=name,
        run=shlex.join(command),
        image=image or defaults.image or DEFAULT_IMAGE,
        gpu=gpu or defaults.gpu or DEFAULT_GPU,
        setup=guessed.setup,
        code=".",
        code_exclude=(PULLED,),
        budget=f"${dollars.removeprefix('$')}" if dollars else "",
    )


def _read_pairs(given: Sequence[str], option: str, check: Callable[[str, str], None] | None = None) -> dict[str, str]:
    pairs = {}
    for each in given:
        variable, sign, value = each.partition("=")
        if not sign or not variable:
            raise UserError(f"--{option} {each!r} is not NAME=VALUE")
        if check is not None:
            check(variable, value)
        pairs[variable] = value
    return pairs


def _refuse_key(variable: str, value: str) -> None:
    """Values of ``[env]`` are stored in the ledger and in the job file."""
    if value and (_NAMED_LIKE_KEYS.search(variable) or _KEYS.search(value)):
        stored = variable.lower().replace("_", "-")
        raise UserError(
            f"the value of {variable} looks like a key, and --env writes it into the ledger",
            hint=f"autopilot secret set {stored}, then --secret {variable}={stored}",
        )


def _save(path: Path, toml: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(toml)
    except FileExistsError:
        raise UserError(f"{path} already exists", hint="name another file for --save") from None
    except OSError as error:
        raise CommandError(Exit.FAILED, f"cannot write {path}: {error.strerror}") from None
    print(f"wrote {path}")


def _is_confirmed(draft: Draft) -> bool:
    if not sys.stdin.isatty():
        raise UserError("no terminal to confirm this spending on", hint="add -y")
    most = f"for at most {draft.budget}" if draft.budget else "without a budget of its own"
    return input(f"\nsubmit it, {most}? [y/N] ").strip().lower() in ("y", "yes")


def _follow(client: JsonClient, job: Job) -> int:
    """Its output until it is over; then what it leaves. Ctrl-C leaves the job to itself."""
    from autopilot.cli.logs import logs

    logs(job.id, follow=True)
    life = read(JobLife, client.get(job_path(job.id)))
    ended = life.job
    if ended.status not in outcomes.EXITS:
        name = text.plain(job.name)
        print(f"\n{name} keeps running: autopilot logs {name} -f, or autopilot cancel")
        return 130
    print(*outcomes.tell(life), sep="\n", file=sys.stderr)
    if ended.status == "succeeded":
        _fetch(job)
    return outcomes.exit_of(ended)


def _fetch(job: Job) -> None:
    from autopilot.cli.pull import pull

    name = text.plain(job.name)
    places = (Path(f"{name}{number}-outputs") for number in ("", *(f"-{n}" for n in range(2, 1000))))
    try:
        pull(job.id, next(place for place in places if not place.exists()))
    except UserError as problem:  # it left nothing there
        print(problem.message, file=sys.stderr)
