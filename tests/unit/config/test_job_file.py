"""Job files: what is read from them, and the one clear error for each way to get them wrong."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.config.job_file import parse_job
from autopilot.config.job_keys import JOB_KEYS
from autopilot.domain.after import After, On
from autopilot.domain.array import ArraySpec
from autopilot.domain.code import CodeSpec
from autopilot.domain.errors import UserError
from autopilot.domain.host import HostNeeds
from autopilot.domain.job import GpuChoice, JobSpec, SpotPolicy, Trust
from autopilot.domain.registry import Registry, server_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOBS = Path(__file__).parents[3] / "config" / "jobs"

SMALLEST = """\
name = "hello"
image = "python:3.12-slim"
run = "true"
[resources]
gpu = "RTX 4090"
"""
FULL = """\
name = "bert-qa"
image = "registry.example:5000/team/image@sha256:0123abcd"
run = '''
python train.py
'''
setup = "pip install ."
workdir = "/workspace/bert"
trust = "secure"
shell = "bash"
run_as = "root"
notify = ["team", "ops"]
tags = { team = "vision", project = "bert qa" }
after = ["prepare", { job = "01KDZ3V8XQ7M2N4P6R8T0V1W2X", on = "any" }]
[env]
WANDB_MODE = "offline"
EMPTY = ""
[secrets]
HF_TOKEN = "hf"
[inputs]
"data/train.bin" = "https://host.example/train.bin?x=1"
"data/more.bin" = { url = "https://host.example/more.bin", size = "1.5GB" }
[code]
path = "src"
include = ["data/small.csv"]
exclude = ["data/", "*.ckpt"]
max = "1.5GB"
[outputs]
paths = ["model", "results/*.json"]
size = "2GB"
[resources]
gpu = "RTX  4090:2 | A100 80GB"
vram = "24 GB"
disk = "1.5TB"
max_hourly = "$2.50"
cuda = "12.8"
[registry]
server = "registry.example:5000"
user = "me"
password = "team"
[work]
estimate = "1d12h"
at_most = "2d"
on = "RTX 4090"
progress = 'step (?P<step>\\d+)/(?P<total>\\d+)'
stall_after = "45m"
on_stall = "fail"
[spot]
policy = "auto"
max_price = "0.80"
[deadline]
at = 2026-01-04T12:00:00Z
fallback = "never"
[budget]
total = "$1,025.00"
max_rate = "$3.00"
on_exhausted = "cancel"
[checkpoint]
path = "out/ckpt"
max_loss = "15m"
interval = "90s"
keep = 3
[retry]
max_attempts = 10
[array]
matrix = { LR = [0.1, 1e-2], SEED = [1, "x y"] }
parallel = 3
succeed_at = 0.75
max_failures = 2
[debug]
hold = "90m"
exec = false
[ssh]
key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBdTvTnGDZKJkcFNbe1LPJ7fnTkzFf0NJGQFvY4H3EwQ me@laptop"
"""


def parse(text: str) -> JobSpec:
    return parse_job(text, source="job.toml", now=NOW)


def refusal(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse(text)
    return str(caught.value)


def test_every_key_is_read() -> None:
    assert parse(FULL) == JobSpec(
        name="bert-qa",
        image="registry.example:5000/team/image@sha256:0123abcd",
        run="python train.py\n",
        gpus=(GpuChoice("RTX 4090", 2), GpuChoice("A100 80GB", 1)),
        setup="pip install .",
        workdir="/workspace/bert",
        trust=Trust.SECURE,
        in_bash=True,
        as_root=True,
        code=CodeSpec("src", ("data/small.csv",), ("data/", "*.ckpt"), 1_500_000_000),
        registry=Registry("registry.example:5000", "me", "team"),
        env=(("WANDB_MODE", "offline"), ("EMPTY", "")),
        min_vram_gb=Decimal(24),
        disk_gb=Decimal(1500),
        max_hourly=Decimal("2.5"),
        host=HostNeeds(cuda=Decimal("12.8")),
        work_estimate=timedelta(hours=36),
        work_at_most=timedelta(hours=48),
        work_on="RTX 4090",
        spot_policy=SpotPolicy.AUTO,
        max_bid=Decimal("0.8"),
        deadline=NOW + timedelta(days=3),
        fall_back=False,
        budget=Decimal(1025),
        max_rate=Decimal(3),
        cancel_when_exhausted=True,
        checkpoint_path="out/ckpt",
        checkpoint_interval=timedelta(seconds=90),
        interval_is_fixed=True,
        max_loss=timedelta(minutes=15),
        checkpoints_kept=3,
        progress=r"step (?P<step>\d+)/(?P<total>\d+)",
        stall_after=timedelta(minutes=45),
        stall_fails=True,
        secrets=(("HF_TOKEN", "hf"),),
        inputs=(
            ("data/train.bin", "https://host.example/train.bin?x=1"),
            ("data/more.bin", "https://host.example/more.bin"),
        ),
        inputs_gb=Decimal("1.5"),
        outputs=("model", "results/*.json"),
        outputs_gb=Decimal(2),
        max_attempts=10,
        may_exec=False,
        notify=("team", "ops"),
        tags=(("project", "bert qa"), ("team", "vision")),
        array=ArraySpec(4, (("LR", ("0.1", "0.01")), ("SEED", ("1", "x y"))), "", 3, Decimal("0.75"), 2),
        after=(After("prepare"), After("01KDZ3V8XQ7M2N4P6R8T0V1W2X", On.ANY)),
        ssh_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBdTvTnGDZKJkcFNbe1LPJ7fnTkzFf0NJGQFvY4H3EwQ me@laptop",
        hold=timedelta(minutes=90),
    )


def test_the_full_file_sets_every_field_to_something_else_than_its_default() -> None:
    spec = parse(FULL)
    same = [f.name for f in fields(JobSpec) if f.default is not MISSING and getattr(spec, f.name) == f.default]
    assert same == ["spot_policy", "due_within", "schedule"], "of the two deadlines one; a schedule waits for none"


def test_left_out_keys_take_the_defaults_of_the_domain() -> None:
    assert parse(SMALLEST) == JobSpec("hello", "python:3.12-slim", "true", (GpuChoice("RTX 4090", 1),), in_bash=True)


@pytest.mark.parametrize(
    "at", ["2026-01-02T12:00:00Z", '"2026-01-02T12:00:00Z"', "2026-01-02T14:00:00+02:00", "2026-01-02 12:00:00Z"]
)
def test_a_deadline_may_be_an_instant(at: str) -> None:
    spec = parse(f'{SMALLEST}[work]\nestimate = "1h"\n[deadline]\nat = {at}\n')
    assert spec.deadline == NOW + timedelta(days=1)
    assert spec.deadline.tzinfo is UTC
    assert spec.fall_back


def test_without_on_demand_there_is_no_falling_back() -> None:
    assert not parse(f'{SMALLEST}[spot]\npolicy = "spot"\n').fall_back


WORK = f'{SMALLEST}[work]\nestimate = "1h"\n[deadline]\n'
"""Its next line is the ninth."""


def test_a_deadline_within_a_span_counts_from_the_end_of_predecessors() -> None:
    within = f'after = ["prepare"]\n{WORK}within = "6h"\n'
    spec = parse(within)
    assert (spec.deadline, spec.due_within) == (None, timedelta(hours=6))
    spec = parse(within.replace('after = ["prepare"]\n', ""))
    assert (spec.deadline, spec.due_within) == (NOW + timedelta(hours=6), None)
    spec = parse(f'after = ["prepare"]\n{WORK}at = 2026-01-02T12:00:00Z\n')
    assert (spec.deadline, spec.due_within) == (NOW + timedelta(days=1), None)


def test_what_a_job_takes_of_another_one_is_waited_for() -> None:
    lines = '"data" = "job:prepare/./out/"\nwords = { url = "job:prepare/vocab.txt", size = "2GB" }\n"x" = "job:b/y"'
    spec = parse(with_line("inputs", lines) + '[deadline]\nwithin = "6h"\n[work]\nestimate = "1h"\n')
    assert spec.inputs == (("data", "job:prepare/out"), ("words", "job:prepare/vocab.txt"), ("x", "job:b/y"))
    assert spec.after == (After("prepare"), After("b"))
    assert (spec.inputs_gb, spec.due_within, spec.deadline) == (Decimal(2), timedelta(hours=6), None)
    spec = parse('after = ["c", "b"]\n' + with_line("inputs", '"x" = "job:b/y"'))
    assert spec.after == (After("c"), After("b")), "what it says already is not said twice"


def test_an_array_follows_another_task_by_task() -> None:
    follows = 'after = [{ job = "first", on = "same task" }]\n'
    timed = f'{follows}{WORK}within = "6h"\n[array]\ncount = 3\n[inputs]\n"data" = "job:first/out"\n'
    spec = parse(timed)
    assert spec.after == (After("first", On.SAME_TASK),)
    assert (spec.due_within, spec.deadline) == (None, NOW + timedelta(hours=6)), "there is no one end to count from"
    with pytest.raises(UserError, match=r'job\.toml:1: on = "same task" is for arrays, and this job is not an array'):
        parse(follows + SMALLEST)


def with_line(section: str, line: str) -> str:
    return f"{SMALLEST}\n[{section}]\n{line}\n" if section != "resources" else f"{SMALLEST}{line}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # not TOML
        ("name = bert\n", "job.toml:1: not valid TOML"),
        ('name = "x"\nrun = "unfinished\n', "job.toml:2: not valid TOML"),
        ('name = "x"\nname = "y"\n', "job.toml:2: not valid TOML"),
        ("x = [1,\n2,\n", "job.toml:3: not valid TOML"),
        # unknown names
        (
            with_line("resources", 'max_hourlly = "$1"'),
            'job.toml:6: unknown key "max_hourlly" in [resources] (did you mean "max_hourly"?)',
        ),
        (with_line("resource", 'gpu = "x"'), 'job.toml:7: unknown section [resource] (did you mean "resources"?)'),
        ('nmae = "x"\n' + SMALLEST, 'job.toml:1: unknown key "nmae" (did you mean "name"?)'),
        (
            with_line("resources", 'zzz = "$1"'),
            "(known here: arch, country, cpus, cuda, datacenter, disk, ",
        ),
        (
            with_line("budget", 'max_hourly = "$1"'),
            'job.toml:8: unknown key "max_hourly" in [budget] ("max_hourly" belongs to [resources])',
        ),
        (with_line("resources", 'trust = "any"'), '"trust" belongs at the top, before the first [section]'),
        ("[[resources]]\n" + SMALLEST, "not valid TOML"),
        ('env = "x"\n' + SMALLEST, "job.toml:1: env must be a section"),
        ('after = "prepare"\n' + SMALLEST, 'job.toml:1: after: must be a list of jobs like ["prepare"]'),
        ("after = []\n" + SMALLEST, "after: must be a list of jobs"),
        ('after = ["a", { job = "a" }]\n' + SMALLEST, "after: names 'a' twice"),
        ('after = [{ job = "a", when = "ok" }]\n' + SMALLEST, 'after: each is a name like "prepare", or { job'),
        ('after = [{ job = "a", on = "never" }]\n' + SMALLEST, 'after: must be one of "ok", "fail", "any"'),
        (f"after = {[str(n) for n in range(51)]}\n" + SMALLEST, "a job waits for 50 others at most, not for 51"),
        ("nodes = 2\n" + SMALLEST, "job.toml:1: nodes: a job has one machine: hosts on these markets are behind NAT"),
        (with_line("resources", "num_nodes = 4"), 'ask for them in one machine, gpu = "H100:8"; for parts that do'),
        ('tags = "x"\n' + SMALLEST, "job.toml:1: tags: must be 1 to 20 words by key"),
        ("tags = { project = 3 }\n" + SMALLEST, "tags: project must be a text"),
        ('tags = { "a b" = "x" }\n' + SMALLEST, "tags: keys have 1 to 40 letters"),
        ('tags = { a = "x\\ny" }\n' + SMALLEST, "tags: a must be a text of 1 to 100 characters on one line"),
        # not yet supported
        (with_line("retry", 'on = ["error"]'), "retry.on is not supported yet"),
        (with_line("retry", 'window = "1h"'), "retry.window is not supported yet"),
        # secrets, inputs, outputs, progress
        (with_line("secrets", 'HF = "no name"'), "secrets.HF: must be a secret's name"),
        (with_line("secrets", 'AUTOPILOT_X = "x"'), "names that start with AUTOPILOT_ are reserved"),
        (with_line("secrets", "HF = 3"), "secrets.HF: must be a secret's name"),
        (with_line("inputs", '"/etc/x" = "https://h/x"'), "not a path inside the work directory"),
        (with_line("inputs", '"a/../../x" = "https://h/x"'), "not a path inside the work directory"),
        (with_line("inputs", '"." = "https://h/x"'), "inputs..: not a path inside the work directory"),
        (with_line("inputs", '"~/x" = "https://h/x"'), "inputs.~/x: not a path inside the work directory"),
        (with_line("inputs", '"a/./x" = "https://h/x"'), "not a path inside the work directory"),
        (with_line("inputs", '"a//x" = "https://h/x"'), "not a path inside the work directory"),
        (with_line("inputs", '"a/" = "https://h/x"'), "not a path inside the work directory"),
        (with_line("inputs", '"" = "https://h/x"'), "not a path inside the work directory"),
        (
            with_line("inputs", '"data/x" = "https://h/x"\n"data" = "https://h/y"'),
            "job.toml:9: inputs.data: is a file, but also the directory of another input",
        ),
        (with_line("inputs", '"x" = "ftp://h/x"'), "must be an http or https address"),
        (with_line("inputs", '"x" = "job:prepare"'), "inputs.x: 'job:prepare' is not an output of a job"),
        (with_line("inputs", '"x" = "job:prepare/../y"'), "is not an output of a job"),
        (with_line("inputs", '"x" = "job:prepare/*.txt"'), "is not an output of a job"),
        (with_line("inputs", '"x" = "job:/out"'), "inputs.x: "),
        (with_line("inputs", '"x[1]" = "job:prepare/out"'), "is one path, not a pattern"),
        (
            'after = [{ job = "prepare", on = "any" }]\n' + with_line("inputs", '"x" = "job:prepare/out"'),
            "inputs.x: prepare has outputs only if it succeeds",
        ),
        (
            with_line("inputs", '"x" = "job:prepare/out"\n[schedule]\ncron = "0 2 * * *"'),
            "inputs.x: jobs of a schedule cannot use the outputs of another job",
        ),
        (with_line("inputs", '"x" = { url = "https://h/x", bytes = 1 }'), "has url and size"),
        (with_line("inputs", '"x" = { url = "https://h/x", size = 3 }'), "inputs.x.size: not a size"),
        (with_line("inputs", '"x" = { url = "https://h/x", size = "2TB" }'), "are too small for inputs"),
        (with_line("outputs", 'paths = "x"'), "outputs.paths: must be a list"),
        (with_line("outputs", 'paths = ["../x"]'), "outputs.paths: must be paths without '..'"),
        (with_line("outputs", 'paths = ["model", "/root/out"]'), "outputs.paths: must be paths beneath the work"),
        (with_line("outputs", 'paths = ["~/model"]'), "outputs.paths: must be paths beneath the work directory"),
        (with_line("outputs", 'paths = ["."]'), 'outputs.paths: must name paths in the work directory to keep; "**"'),
        (with_line("outputs", 'paths = ["model", "./"]'), "outputs.paths: must name paths in the work directory"),
        (with_line("work", "progress = {total = 3}"), "work.progress: "),
        (with_line("work", "progress = '(?P<step'"), "work.progress: not a regular expression"),
        (with_line("work", "progress = 'step'"), "have a group like"),
        (with_line("work", 'on_stall = "fail"'), "work.on_stall needs work.stall_after"),
        (with_line("checkpoint", 'max_loss = "5m"'), "checkpoint.max_loss needs checkpoint.path"),
        # code, and what is written where it is meant
        (with_line("code", "path = 3"), "code.path: must be text"),
        (with_line("code", 'include = "data"'), "code.include: must be a list"),
        (with_line("code", 'exclude = ["a\\nb"]'), "code.exclude: must not hold"),
        (with_line("code", 'max = "3GB"'), 'code.max: must be at most "2GB"'),
        (with_line("code", 'workdir = "/x"'), '"workdir" belongs at the top'),
        (with_line("mounts", '"/data" = "./data"'), "unknown section [mounts] ([code] sends files of yours along"),
        (with_line("file_mounts", '"/data" = "./data"'), "[code] sends files of yours along"),
        ('upload = "."\n' + SMALLEST, 'unknown key "upload" ([code] sends files of yours along'),
        ('workdir = "."\n' + SMALLEST, "([code] brings your directory there), not '.'"),
        (
            with_line("inputs", '"x" = "./data/x"'),
            'output of another job, like "job:prepare/out" ([code] sends files of yours along',
        ),
        (with_line("inputs", '"x" = { url = "data/x", size = "5MB" }'), "[code] sends files of yours along"),
        # missing
        ("", "name is missing"),
        (SMALLEST.replace('run = "true"\n', ""), "run is missing (top-level keys belong before the first [section])"),
        (SMALLEST.replace('gpu = "RTX 4090"\n', ""), "resources.gpu is missing (add gpu to [resources])"),
        # units and types
        (with_line("resources", 'disk = "500"'), "job.toml:6: resources.disk: not a size: '500'"),
        (with_line("resources", "disk = 500"), "resources.disk: not a size: 500"),
        (with_line("resources", 'disk = "0GB"'), "resources.disk: must be positive"),
        (with_line("resources", 'vram = "24GiB"'), "resources.vram: not a size"),
        (
            with_line("resources", "max_hourly = 2.5"),
            'max_hourly: not an amount of money: 2.5 (write it as "$25.00", with quotes)',
        ),
        (with_line("budget", 'total = "ten"'), "budget.total: not an amount of money"),
        (with_line("budget", 'total = "-$1"'), "budget.total: "),
        (with_line("budget", 'total = "0"'), "budget.total: must be positive"),
        (with_line("budget", 'total = "nan"'), "budget.total: not a finite amount"),
        (with_line("budget", 'total = "1e40"'), "budget.total: "),
        (with_line("budget", 'total = "0.00000000001"'), "budget.total: more precise than a nano-dollar"),
        (with_line("work", "estimate = 12"), "job.toml:8: work.estimate: not a duration: 12"),
        (with_line("work", 'estimate = "12"'), "work.estimate: not a duration: '12'"),
        (with_line("work", 'estimate = "0h"'), "work.estimate: must be longer than nothing"),
        (with_line("work", f'estimate = "{"9" * 40}d"'), "work.estimate: not a duration"),
        (
            with_line("spot", 'policy = "cheap"'),
            'spot.policy: must be one of "auto", "spot", "on-demand", not \'cheap\'',
        ),
        (with_line("checkpoint", 'path = "a"\nkeep = 0'), "job.toml:9: checkpoint.keep: must be a whole number"),
        (with_line("debug", 'hold = "25h"'), "debug.hold: must be 24h at most"),
        (with_line("debug", "hold = 60"), "debug.hold: not a duration"),
        (with_line("debug", 'exec = "no"'), "debug.exec: must be true or false"),
        (with_line("retry", "max_attempts = true"), "retry.max_attempts: must be a whole number"),
        (SMALLEST.replace("RTX 4090", "RTX 4090:x"), "resources.gpu: not a GPU and count: 'RTX 4090:x'"),
        (SMALLEST.replace("RTX 4090", "RTX 4090:0"), "resources.gpu: of RTX 4090 there must be 1 or more, not 0"),
        (SMALLEST.replace("RTX 4090", "RTX 4090 |"), "resources.gpu: not a GPU and count"),
        (SMALLEST.replace("hello", "he llo"), "job.toml:1: name: must be 1 to 60 letters"),
        (SMALLEST.replace("python:3.12-slim", "--privileged"), "job.toml:2: image: must be an image's name"),
        (SMALLEST.replace('"true"', '" "'), "job.toml:3: run: must not be empty"),
        ('workdir = "work"\n' + SMALLEST, "workdir: must be an absolute path"),
        ('workdir = "/../etc"\n' + SMALLEST, "workdir: must be an absolute path"),
        (with_line("checkpoint", 'path = "../secrets"'), "checkpoint.path: must be a path without '..'"),
        (with_line("checkpoint", 'path = "a/.."'), "checkpoint.path: must be a path without '..'"),
        (
            with_line("checkpoint", 'path = "~/ckpt"'),
            "checkpoint.path: must be a path without '..', and not starting with ~",
        ),
        (with_line("checkpoint", 'path = ""'), "checkpoint.path: must not be empty"),
        (with_line("env", "N = 3"), "env.N: must be text in quotes"),
        (with_line("env", '"A B" = "3"'), "not the name of an environment variable"),
        (with_line("env", 'autopilot_root = "3"'), "are reserved"),
        (with_line("env", 'A = "a\\u0000b"'), "must not hold a zero byte"),
        (with_line("env", 'HF = "x"\n[secrets]\nHF = "hf"'), "job.toml:10: HF is in [env] as well (keep one of them)"),
        # deadlines
        (with_line("deadline", 'within = "3h"'), "a deadline needs an estimate of the work"),
        (WORK + "at = 2026-01-01T11:00:00Z", "job.toml:9: the deadline was 1 h ago"),
        (WORK + "at = 2026-01-02T11:00:00", "deadline.at: needs a time zone"),
        (WORK + "at = 2026-01-02", "deadline.at: not a date and time"),
        (WORK + 'at = "soon"', "deadline.at: not a date and time"),
        (WORK + 'at = 2027-01-01T00:00:00Z\nwithin = "3h"', "both at and within are set"),
        (WORK + 'fallback = "never"', "job.toml:8: [deadline] needs a time"),
        (WORK + 'within = "500000w"', "job.toml:9: the deadline is too far away"),
        # keys that mean nothing, or the contrary, together
        (with_line("checkpoint", 'interval = "5m"'), "checkpoint.interval needs checkpoint.path"),
        (with_line("budget", 'on_exhausted = "park"'), "budget.on_exhausted needs budget.total"),
        (with_line("work", 'estimate = "10h"\nat_most = "9h"'), "job.toml:9: work.at_most is less than work.estimate"),
        (with_line("spot", 'policy = "on-demand"\nmax_price = "$1"'), "job.toml:9: spot.max_price limits bids"),
        (
            with_line(
                "spot", 'policy = "spot"\n[work]\nestimate = "1h"\n[deadline]\nwithin = "2h"\nfallback = "deadline"'
            ),
            "contradicts spot.policy",
        ),
    ],
)
def test_each_mistake_gets_one_clear_error(text: str, message: str) -> None:
    found = refusal(text)
    assert found.startswith("job.toml")
    assert message in found


@pytest.mark.parametrize(
    ("workdir", "path"),
    [
        ("/workspace", "."),
        ("/workspace", "./"),
        ("/workspace", "/workspace"),
        ("/workspace", "//workspace/."),
        ("/workspace/", "/workspace"),
        ("/workspace/bert", "/workspace"),
        ("/workspace/bert", "/"),
        ("/", "."),
    ],
)
def test_a_checkpoint_is_never_the_whole_work_directory(workdir: str, path: str) -> None:
    text = f'workdir = "{workdir}"\n{SMALLEST}[checkpoint]\npath = "{path}"\n'
    where = f"job.toml:8: checkpoint.path: {path!r} contains the whole work directory {workdir}"
    assert refusal(text) == f'{where} (name a file or directory inside it, like "ckpt")'


def test_nor_where_the_work_directory_is_the_standard_one() -> None:
    assert "contains the whole work directory /workspace" in refusal(with_line("checkpoint", 'path = "/workspace"'))


@pytest.mark.parametrize("path", ["ckpt", "./ckpt", ".ckpt", "/workspace/ckpt", "/workspace2", "/models"])
def test_a_checkpoint_inside_the_work_directory_or_elsewhere_is_good(path: str) -> None:
    assert parse(with_line("checkpoint", f'path = "{path}"')).checkpoint_path == path


@pytest.mark.parametrize("path", ["**", "*.json", "./model", "model/", "a~b", "out/~x", ".cache"])
def test_outputs_beneath_the_work_directory_are_good(path: str) -> None:
    assert parse(with_line("outputs", f'paths = ["{path}"]')).outputs == (path,)


def test_inputs_whose_names_only_begin_alike_are_good() -> None:
    lines = '"data" = "https://h/a"\n"data.bin" = "https://h/b"\n"data2/x" = "https://h/c"\n".a/~x" = "https://h/d"'
    assert [path for path, _ in parse(with_line("inputs", lines)).inputs] == ["data", "data.bin", "data2/x", ".a/~x"]


def test_keys_under_the_wrong_head_are_found_out() -> None:
    """TOML files `run` under [env] if it is below that; the error explains the cause."""
    moved = 'name = "x"\nimage = "y"\n[env]\nA = "1"\nrun = "true"\n[resources]\ngpu = "x"\n'
    assert "top-level keys belong before the first [section]" in refusal(moved)


@pytest.mark.parametrize("path", sorted(JOBS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_shipped_jobs_are_valid_and_bear_their_file_s_name(path: Path) -> None:
    assert parse(path.read_text()).name == path.stem


def test_the_shipped_jobs_are_these() -> None:
    demos, chained = {"demo", "demo-all-markets"}, {"chain-prepare", "chain-train"}
    names = {"research", "finetune-70b", "batch-inference", "sweep", "nightly-eval", *demos, *chained}
    assert {path.stem for path in JOBS.glob("*.toml")} == names


@given(st.text(max_size=200))
def test_any_text_is_a_job_or_a_user_s_error(text: str) -> None:
    with pytest.raises(UserError):
        parse(text)


_VALUE = st.one_of(
    st.text(max_size=12).map(lambda s: '"' + s.encode("unicode_escape").decode().replace('"', "") + '"'),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["true", "[]", "{}", "{a = 1}", "2026-01-01", "12:00:00", "2026-01-01T00:00:00Z", '"1h"', '"$5"']),
)


@given(
    key=st.sampled_from([(section, name) for section, keys in JOB_KEYS.items() for name in keys]),
    value=_VALUE,
)
def test_any_value_of_any_key_is_read_or_refused(key: tuple[str, str], value: str) -> None:
    section, name = key
    text = f"{name} = {value}\n" if section == "" else f"[{section}]\n{name} = {value}\n"
    with pytest.raises(UserError):  # always: the file lacks the other required keys
        parse(text)


def test_code_alone_is_the_directory_of_the_job_file() -> None:
    assert parse(SMALLEST + "[code]\n").code == CodeSpec(".", (), (), 500_000_000)
    assert parse(SMALLEST).code is None
    assert parse(SMALLEST + '[code]\nmax = "1.5MB"\n').code == CodeSpec(most_bytes=1_500_000)


@pytest.mark.parametrize(("written", "gb"), [("500MB", "0.5"), ("1.5 mb", "0.0015"), ("40GB", "40"), ("2tb", "2000")])
def test_sizes_have_one_of_three_units(written: str, gb: str) -> None:
    assert parse(with_line("resources", f'vram = "{written}"')).min_vram_gb == Decimal(gb)


IMAGES = [
    ("train", "docker.io"),
    ("me/train:1", "docker.io"),
    ("ghcr.io/me/train:1", "ghcr.io"),
    ("localhost/train", "localhost"),
    ("host:5000/train@sha256:0123", "host:5000"),
]


@pytest.mark.parametrize(("image", "server"), IMAGES)
def test_an_image_s_name_says_its_registry(image: str, server: str) -> None:
    assert server_of(image) == server
    login = f'[registry]\nserver = "{server}"\nuser = "me"\npassword = "x"\n'
    assert parse(SMALLEST.replace("python:3.12-slim", image) + login).registry == Registry(server, "me", "x")


@pytest.mark.parametrize(
    ("registry", "words"),
    [
        ('server = "ghcr.io"\nuser = "me"\npassword = "x"', "the image comes from docker.io, not from ghcr.io"),
        ('server = "https://docker.io"\nuser = "me"\npassword = "x"', "must be a registry's host like ghcr.io"),
        ('server = "docker.io"', "registry.server needs registry.user"),
        ('server = "docker.io"\nuser = "me"', "registry.user needs registry.password"),
        ('user = "me"\npassword = "x"', "registry.password needs registry.server"),
        ('server = "docker.io"\nuser = "a b"\npassword = "x"', "must be without spaces and quotes"),
        ('server = "docker.io"\nuser = "me"\npassword = "dckr_pat_abc+/="', "must be a secret's name"),
        ("", "[registry] needs server, user and password"),
    ],
)
def test_a_registry_is_whole_and_the_image_s_own(registry: str, words: str) -> None:
    assert words in refusal(f"{SMALLEST}[registry]\n{registry}\n")
