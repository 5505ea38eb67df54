"""Settings of a cluster, and the options of ``sbatch`` that come of them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from autopilot.domain.errors import UserError
from autopilot.providers.slurm import commands
from autopilot.providers.slurm.config import SlurmSettings, parse_settings

ONE = {"gpu": "RTX 4090", "vram_gb": 24}


def parsed(**more: Any) -> SlurmSettings:
    return parse_settings({"partitions": {"low": ONE}, **more})


def test_what_a_partition_says_is_said_to_sbatch() -> None:
    stated = {"cpus": 8, "memory_gb": 64, "account": "lab", "qos": "low", "extra": ["--constraint=a100&ib"]}
    found = parsed(partitions={"low": {**ONE, **stated, "gres": "gpu:rtx4090"}}).partitions["low"]
    words = commands.options("low", found, "ap1.x.1", 2, 3661)
    assert "--job-name=ap1.x.1" in words
    assert "--comment=autopilot ap1.x.1" in words
    assert {"--gres=gpu:rtx4090:2", "--cpus-per-task=8", "--mem=64G", "--time=62", "--export=NIL"} <= set(words)
    assert words[-3:] == ["--account=lab", "--qos=low", "--constraint=a100&ib"]
    plain = commands.options("low", parsed().partitions["low"], "ap1.x.1", 1, None)
    assert not [each for each in plain if each.startswith(("--time", "--account", "--mem"))]


@pytest.mark.parametrize(
    "settings",
    [
        {"partitions": {}},
        {"partitions": {"low": {**ONE, "gpu": "no such GPU"}}},
        {"partitions": {"low": {**ONE, "price": 0.4}}},
        {"partitions": {"low": {**ONE, "extra": ["--wrap=rm"]}}},
        {"partitions": {"low": {**ONE, "extra": ["--gpus-per-socket=1"]}}},
        {"partitions": {"low": {**ONE, "extra": ["-a"]}}},
        {"partitions": {"low": {**ONE, "time": "soon"}}},
        {"partitions": {"lo w": ONE}},
        {"host": "-oProxyCommand=x"},
        {"directory": "~/../else"},
        {"directory": "/"},
        {"directory": "relative"},
        {"directory": "/a$(b)"},
        {"slurm_conf": "relative"},
        {"unknown": 1},
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        parsed(**settings)


def test_every_request_is_text_that_a_shell_reads() -> None:
    """By ``sh -n``, which runs nothing."""
    settings = parsed(slurm_conf="/etc/slurm/slurm.conf")
    texts = commands.Texts("a|1|0|low", "A=1", commands.exports({"A": "it's $HOME\n"}), "", "exec x", "true", "true")
    requests = [
        commands.look(),
        commands.look_at_partitions(),
        commands.ends(["1", "2"]),
        commands.create("ap1.x.1", texts, ["--comment=autopilot ap1.x.1"], "autopilot-5e"),
        commands.remove("ap1.x.1") + commands.cancel("1", "1000", "ap1.x.1"),
        commands.halt("1") + commands.release("1") + commands.words("ap1.x.1"),
    ]
    for each in requests:
        text = commands.begin(settings, "autopilot-5e") + each
        subprocess.run(["sh", "-n"], input=text.encode(), check=True)


def test_a_variable_that_is_no_name_is_left_out() -> None:
    assert commands.exports({"A-B": "x", "C": "1"}) == "export C=1\n"
