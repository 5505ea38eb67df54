"""How an agent releases its own machine: one market or the other, by what its environment contains."""

from __future__ import annotations

import pytest

from autopilot.agent.shipped.markets import market_of, runpod, vastai

POD = {"RUNPOD_POD_ID": "abc123", "RUNPOD_API_KEY": "pod-key"}
INSTANCE = {"CONTAINER_ID": "77", "CONTAINER_API_KEY": "instance-key"}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (POD, runpod),
        (INSTANCE, vastai),
        ({"RUNPOD_POD_ID": "abc123"}, None),
        ({"CONTAINER_ID": "77"}, None),
        ({**POD, "RUNPOD_API_KEY": ""}, None),
        ({}, None),
    ],
)
def test_whose_machine_this_is(env: dict[str, str], expected: object) -> None:
    assert market_of(env) is expected


def test_a_pod_has_two_ways_out_at_the_real_market() -> None:
    rest, graphql = runpod(POD)
    assert rest == ("DELETE", "https://api.runpod.io/v2/pods/abc123", "pod-key", None)
    query = 'mutation { podTerminate(input: {podId: "abc123"}) }'
    assert graphql == ("POST", "https://api.runpod.io/graphql", "pod-key", {"query": query})


def test_a_pod_goes_likewise_elsewhere() -> None:
    rest, graphql = runpod({**POD, "AUTOPILOT_PROVIDER_URL": "http://127.0.0.1:1/"})
    assert rest == ("DELETE", "http://127.0.0.1:1/v2/pods/abc123", "pod-key", None)
    assert graphql[:2] == ("POST", "http://127.0.0.1:1/graphql")


def test_an_instance_has_one() -> None:
    url = "https://console.vast.ai/api/v0/instances/77/"
    assert vastai(INSTANCE) == [("DELETE", url, "instance-key", {})]
