"""``[resources]``: what a job asks of the machine around the GPUs."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from autopilot.config.job_file import parse_job
from autopilot.domain.errors import UserError
from autopilot.domain.host import KEYS, NO_NEEDS, Arch, HostNeeds
from autopilot.domain.job import JobSpec

NOW = datetime(2026, 11, 1, tzinfo=UTC)
D = Decimal


def parse(*lines: str) -> JobSpec:
    head = 'name = "a"\nimage = "i"\nrun = "true"\n[resources]\ngpu = "RTX 4090"\n'
    return parse_job(head + "\n".join(lines), source="job.toml", now=NOW)


def test_every_key_is_read_with_its_unit() -> None:
    spec = parse(
        'cuda = "12.8"',
        'driver = "550.54.14"',
        'arch = "amd64"',
        "cpus = 16",
        'ram = "64GB"',
        'shm = "500MB"',
        'disk_speed = "1.5GB/s"',
        "reliability = 0.99",
        'download = "200Mbps"',
        'upload = "1 Gbps"',
        'country = "de | FR"',
        'region = "Europe | us-central1"',
        "datacenter = true",
    )
    assert spec.host == HostNeeds(
        cuda=D("12.8"),
        driver="550.54.14",
        arch=Arch.AMD64,
        cpus=D(16),
        ram_gb=D(64),
        shm_gb=D("0.5"),
        disk_mb_per_s=D(1500),
        reliability=D("0.99"),
        download_mbps=D(200),
        upload_mbps=D(1000),
        countries=("DE", "FR"),
        regions=("europe", "us-central1"),
        datacenter=True,
    )
    assert set(KEYS.values()) == set(HostNeeds.__slots__)
    assert spec.query.host == spec.host
    assert spec.query.datacenter_only


def test_without_them_nothing_is_asked() -> None:
    spec = parse()
    assert spec.host == NO_NEEDS
    assert not spec.query.datacenter_only


@pytest.mark.parametrize(("written", "cuda"), [('"12"', "12.0"), ("12", "12.0"), ("12.4", "12.4"), ('"13.0"', "13.0")])
def test_a_bare_major_version_of_cuda_is_its_first(written: str, cuda: str) -> None:
    assert parse(f"cuda = {written}").host.cuda == D(cuda)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('cuda = "12.8.1"', 'must be a CUDA version like "12.8"'),
        ("cuda = true", "must be a CUDA version"),
        ('driver = "550-server"', "must be a version of NVIDIA's driver"),
        ("cpus = 0", "at least 1"),
        ('cpus = "16"', "whole number"),
        ("cpus = 100000", "4,096 at most"),
        ('ram = "64"', "64"),
        ('disk_speed = "500MB"', '"500MB/s"'),
        ('disk_speed = "0MB/s"', "must be positive"),
        ('download = "200MB/s"', '"200Mbps"'),
        ('upload = "200"', '"200Mbps"'),
        ("reliability = 99", "share"),
        ('country = "Germany"', "two letters"),
        ('country = "UK"', '"GB"'),
        ('region = "eu west"', "parts of the world"),
        ('arch = "x86"', '"amd64", "arm64"'),
        ('datacenter = "EU-RO-1"', "true or false"),
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(line: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        parse(line)
    assert str(refused.value).startswith("job.toml:6: ")
    assert f"resources.{line.split()[0]}" in str(refused.value)
    assert told in str(refused.value)
