"""Tune a training with Optuna: each trial is a job on a machine of its own, and several run at once."""

from __future__ import annotations

import re

import optuna

from autopilot.client import Client, JobEnded, SubmittedJob

JOB = """\
name = "trial-{number}"
image = "python:3.12-slim"
run = "python3 -c 'x = {x}; print(\\"loss\\", (x - 2) ** 2)'"

[resources]
gpu = "RTX 4090:1"

[budget]
total = "$1"
"""


def tune(client: Client, trials: int, at_once: int = 4) -> optuna.Study:
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=1))
    for first in range(0, trials, at_once):
        asked = [study.ask() for _ in range(first, min(first + at_once, trials))]
        jobs = [client.submit(JOB.format(number=each.number, x=each.suggest_float("x", -5, 5))) for each in asked]
        for trial, job in zip(asked, jobs, strict=True):
            try:
                job.wait()
            except JobEnded:  # it failed, or its money is used up: Optuna continues without it
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, read_loss(job))
    return study


def read_loss(job: SubmittedJob) -> float:
    output = "".join(chunk.text for chunk in job.logs())
    return float(re.findall(r"^loss (\S+)", output, re.MULTILINE)[-1])


if __name__ == "__main__":
    with Client() as client:
        print(tune(client, trials=8).best_params)
