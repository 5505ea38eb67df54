"""The public key of [ssh]: read from the file that the job file or client.toml names, and sent as text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopilot.config.job_file import parse_job
from autopilot.config.ssh_key import with_key
from autopilot.domain.errors import UserError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBdTvTnGDZKJkcFNbe1LPJ7fnTkzFf0NJGQFvY4H3EwQ"
JOB = 'name = "a"\nimage = "b:1"\nrun = "true"\n[resources]\ngpu = "RTX 4090"\n'


@pytest.fixture
def public(tmp_path: Path) -> Path:
    path = tmp_path / "id.pub"
    path.write_text(KEY + " me@laptop\n")
    return path


def key_in(toml: str) -> str:
    return parse_job(toml, source="job.toml", now=datetime(2026, 1, 1, tzinfo=UTC)).ssh_key


@pytest.mark.parametrize(
    "section",
    [
        '[ssh]\nkey = "id.pub"  # mine\n',
        "[ssh]\n  key='id.pub'\n[debug]\nexec = true\n",
    ],
)
def test_a_path_beside_the_job_file_becomes_the_text_of_the_key(public: Path, section: str) -> None:
    filled = with_key(JOB + section, "job.toml", public.parent, None)
    assert key_in(filled) == KEY + " me@laptop"
    assert len(filled.split("\n")) == len((JOB + section).split("\n"))  # an error names the line of the user's file


def test_client_toml_fills_in_for_a_job_file_without_the_section(public: Path, tmp_path: Path) -> None:
    assert key_in(with_key(JOB, "job.toml", tmp_path, public)) == KEY + " me@laptop"
    assert with_key(JOB, "job.toml", tmp_path, None) == JOB


def test_a_key_in_the_file_and_invalid_input_stay_as_they_are(public: Path) -> None:
    for text in (f'{JOB}[ssh]\nkey = "{KEY}"\n', JOB + "[ssh]\nkey = 7\n", JOB + "[ssh]\n", "ssh = 7\n", "= not TOML"):
        assert with_key(text, "job.toml", public.parent, public) == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "is a private key, which autopilot never sends"),
        ("hello\n", "must be the text of a public key"),
        ("ssh-rsa " + "A" * 700 + "\n", "take an Ed25519 key"),
        (f"{KEY}\n{KEY}\n", "must be the text of a public key"),
        (f'command="rm" {KEY}\n', "must be the text of a public key"),
    ],
)
def test_a_file_that_is_no_public_key_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "x").write_text(content)
    with pytest.raises(UserError, match=words):
        with_key(JOB + '[ssh]\nkey = "x"\n', "job.toml", tmp_path, None)


def test_a_file_that_is_not_there_and_a_table_in_one_line_are_said(tmp_path: Path, public: Path) -> None:
    with pytest.raises(UserError, match="cannot read the public key"):
        with_key(JOB + '[ssh]\nkey = "none.pub"\n', "job.toml", tmp_path, None)
    with pytest.raises(UserError, match="must be on a line of its own"):
        with_key('ssh = { key = "id.pub" }\n' + JOB, "job.toml", public.parent, None)


@pytest.mark.parametrize("raw", ["~/.ssh/id.pub", "ssh-ed25519", KEY + "\nssh-rsa AAAA", "ssh-ed25519 -oProxy=x"])
def test_the_daemon_takes_the_text_of_one_key_alone(raw: str) -> None:
    with pytest.raises(UserError, match=r"ssh\.key"):
        key_in(f"{JOB}[ssh]\nkey = {json.dumps(raw)}\n")
