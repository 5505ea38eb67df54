"""docs/reference/job-file.md is held to the tables of keys: each key, its type, default and example."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.config.job_file import parse_job
from autopilot.config.job_keys import ENV, JOB_KEYS, NOT_YET_SUPPORTED, SECTIONS, TOP
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec

REFERENCE = (Path(__file__).parents[3] / "docs/reference/job-file.md").read_text()
NOW = datetime(2026, 1, 1, tzinfo=UTC)

_ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (.+?) \| `(.+?)` \| (.+) \|$", re.MULTILINE)


def documented() -> dict[tuple[str, str], tuple[str, str, str]]:
    """(section, key) → (type, default, example)."""
    found = {}
    for part in REFERENCE.split("\n## ")[1:]:
        title = part.split("\n", 1)[0]
        section = TOP if title == "Top level" else title.strip("[]")
        for name, kind, default, example, _ in _ROW.findall(part):
            found[section, name] = (kind, default.strip("`"), example.replace("\\|", "|"))
    return found


KEYS = {(section, name): key for section, keys in JOB_KEYS.items() for name, key in keys.items()}


def test_every_key_is_documented_and_no_other() -> None:
    assert list(documented()) == list(KEYS)
    heads = re.findall(r"^## \[(\w+)\]$", REFERENCE, re.MULTILINE)
    assert set(heads) == set(SECTIONS)
    assert ENV in heads


@pytest.mark.parametrize(("section", "name"), KEYS)
def test_type_default_and_example(section: str, name: str) -> None:
    key = KEYS[section, name]
    kind, default, example = documented()[section, name]
    assert kind == key.kind
    assert (default == "required") == key.required
    key.read(tomllib.loads(f"v = {example}", parse_float=Decimal)["v"])
    if key.field and not key.required:
        standard = next(field.default for field in fields(JobSpec) if field.name == key.field)
        if default == "none":
            assert not standard
        else:
            assert key.read(tomllib.loads(f"v = {default}")["v"]) == standard


def test_the_types_are_explained() -> None:
    explained = set(re.findall(r"^\| (\w[\w ]*) \| ", REFERENCE.split("## Types")[1].split("\n## ")[0], re.MULTILINE))
    choices = {key.kind for key in KEYS.values() if " or " in key.kind}
    assert {key.kind for key in KEYS.values()} - choices == explained - {"Type"}
    assert all(word in REFERENCE for kind in choices for word in re.split(r", | or ", kind))


def test_what_is_not_supported_yet_is_listed() -> None:
    listed = set(re.findall(r"`(\[?[\w.]+\]?)`", REFERENCE.split("## Not supported yet")[1]))
    expected = {
        f"{section}.{key}" if key else f"[{section}]"
        for section, keys in NOT_YET_SUPPORTED.items()
        for key in keys or ("",)
    }
    assert listed == expected


def test_the_smallest_job_in_the_text_is_a_job() -> None:
    example = REFERENCE.split("```toml\n")[1].split("```")[0]
    assert parse_job(example, source="example", now=NOW).name == "hello"


@pytest.mark.parametrize("section", [section for section in JOB_KEYS if section != TOP])
def test_the_hint_for_an_unknown_key_lists_what_is_documented(section: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_job(f"[{section}]\nqqqqqqqq = 1\n", source="job.toml", now=NOW)
    known = caught.value.hint.removeprefix("known here: ").split(", ")
    assert known == sorted(name for where, name in documented() if where == section)
