"""The glossary is the law: names in the code keep to its words, and a word that it replaced does not come back."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import autopilot
import autopilot_lab

PACKAGES = Path(autopilot.__file__).parent, Path(autopilot_lab.__file__).parent

REPLACED = {
    "believed": "plausible",
    "chores": "maintenance",
    "chronicle": "event_log",
    "luck": "rng",
    "mishap": "injected fault",
    "mishaps": "injected faults",
    "sight": "observed",
    "squeeze": "compress",
    "standing": "current_bid, status",
    "stray": "orphan",
    "strays": "orphans",
    "taken_per_h": "preemptions_per_h",
    "terms": "config",
    "told": "reported, estimated",
    "twin": "duplicate",
    "twins": "duplicates",
    "unseen": "unobserved",
    "ways": "options",
    "work_error": "estimate_error",
}
"""Anywhere in a name."""
TOO_VAGUE = {
    "found": "candidates, offers, findings",
    "force": "pressure",
    "n": "number",
    "on_demand_rate": "on_demand_price",
    "rate": "bid, billed_rate, on_demand_price, floor",
    "way": "option",
}
"""As a whole name."""
RATES = {
    "billed_rate": "$/h that a market bills for a running machine",
    "disk_rate": "the storage rate of RunPod's two kinds of disk",
    "enforce_rate_limits": "requests per time, of the sandbox",
    "_lowest_rate": "of what fits a job's maximum rate",
    "max_rate": "a key of job files",
    "_over_rate": "a job's maximum rate",
    "running_disk_rate": "the storage rate, on the sandbox's RunPod",
    "spot_rate": "a key of suite files",
    "stopped_disk_rate": "the storage rate, on the sandbox's RunPod",
    "storage_rate": "$/h that a market bills for a machine's disk",
    "_storage_rate": "the same",
}
"""All names with the word "rate" in them; our own offer is a bid, a posted price a price."""
ALLOWED = {
    ("planning/list_prices.py", "terms"): "the vendor's own terms, as in the list",
    ("answers/plans.py", "ways_out"): "a key of the plan's JSON",
    ("planning/prospects.py", "ways_out"): "what fills that key",
    ("planning/prospects.py", "_ways_out"): "the same",
    ("cli/setup.py", "force"): "the option --force",
    ("autopilot_lab/backtest/suite_file.py", "on_demand_rate"): "a key of suite files",
    ("providers/paper/agent.py", "last_ckpt_n"): "a key of the paper market's file",
    ("providers/paper/agent.py", "next_ckpt_n"): "a key of the paper market's file",
}


@cache
def trees() -> dict[str, ast.Module]:
    """By path: in the product's package as it is, in the laboratory's from its own name on."""
    product, laboratory = PACKAGES
    return {
        str(path.relative_to(root)): ast.parse(path.read_text())
        for package, root in ((product, product), (laboratory, laboratory.parent))
        for path in sorted(package.rglob("*.py"))
    }


@cache
def names() -> tuple[tuple[str, int, str], ...]:
    """Of fields, parameters and functions: file, line, name."""
    return tuple((file, line, name) for file, tree in trees().items() for line, name in names_in(tree))


def names_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(body=body):
                for field in body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        yield field.lineno, field.target.id
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name


def replacement(name: str) -> str | None:
    if name in TOO_VAGUE:
        return TOO_VAGUE[name]
    if name.endswith("ckpt_n"):
        return "number"
    spelt = f"_{name.strip('_').lower()}_"
    if "_rate_" in spelt and name not in RATES:
        return TOO_VAGUE["rate"]
    return next((new for old, new in REPLACED.items() if f"_{old}_" in spelt), None)


def test_no_name_has_a_word_that_the_glossary_replaced() -> None:
    wrong = [
        f"{file}:{line} {name}: say {new}"
        for file, line, name in names()
        if (new := replacement(name)) is not None and (file, name) not in ALLOWED
    ]
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_needed() -> None:
    used = {(file, name) for file, _, name in names()}
    assert set(ALLOWED) <= used
    assert set(RATES) <= {name for _, name in used}


PARTICIPLE = re.compile(r"_?(?:[a-z]+(?:ed|own|orn|iven|aken|old|ound)|begun|kept|made|sent|swept|written)")
NO_PARTICIPLES = {
    *("bound", "exceed", "feed", "fold", "hold", "need", "own", "proceed", "round", "seed", "shed", "speed", "succeed"),
}
STATES = {
    ("checkpoint.py", "saved"): "what a training script calls; documented for users",
    ("agent/shipped/child.py", "ended"): "how the process ended, as poll says it",
}


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_functions_are_no_bare_participles() -> None:
    wrong = [
        f"{file}:{node.lineno} {node.name}: a verb, or is_…"
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not is_property(node)
        and PARTICIPLE.fullmatch(node.name)
        and node.name.removeprefix("_") not in NO_PARTICIPLES
        and (file, node.name) not in STATES
    ]
    assert not wrong, "\n".join(wrong)


ALIKE = (
    {
        "providers/vastai",
        "providers/runpod",
        "providers/mithril",
        "providers/nebius",
        "providers/ssh",
        "providers/slurm",
    },
    {
        "autopilot_lab/sandbox",
        "autopilot_lab/sandbox/market",
        "autopilot_lab/sandbox/vastai",
        "autopilot_lab/sandbox/runpod",
        "autopilot_lab/sandbox/mithril",
        "autopilot_lab/sandbox/nebius",
    },
)
"""Packages side by side, each with its own classes for the same parts. Only among them may a name occur twice."""
NAMED_AS_THEY_ARE = ("answers", "answers/models")
"""The API calls a job a job: its document and its clients show these names. Within each, each name occurs once."""
SELF_CONTAINED = ("agent/shipped", "host/shipped", "providers/ssh/shipped")
"""They travel alone, without the product: within each, each name occurs once."""


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(Path(file).parent))
    apart = (*SELF_CONTAINED, *NAMED_AS_THEY_ARE)
    agents = [rooms for rooms in places.values() if any(rooms.count(room) > 1 for room in apart)]
    others = {name: [room for room in rooms if room not in apart] for name, rooms in places.items()}
    twice = {name: rooms for name, rooms in others.items() if len(rooms) > 1}
    assert not agents
    assert {
        name: rooms
        for name, rooms in twice.items()
        if len(set(rooms)) < len(rooms) or not any(set(rooms) <= alike for alike in ALIKE)
    } == {}


def test_prices_that_the_glossary_names_are_fields() -> None:
    """The words for money in the glossary's table are those in the values."""
    fields = {name for _, _, name in names()}
    assert {"bid", "billed_rate", "floor", "on_demand_price", "storage_price", "storage_rate", "max_rate"} <= fields
