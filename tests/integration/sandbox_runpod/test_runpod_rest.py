"""REST v2 over HTTP: sampled shapes, problems, the actions matrix, rate limits, logs, billing; the retired v1."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from autopilot_lab.sandbox.runpod.pods import NetworkVolume
from tests.integration.sandbox_runpod.runpod_desk import SAMPLES, assert_same_shape, sample

STORE = NetworkVolume("agv6w2qcg7", "my-dataset", 50, "US-KS-2")


async def test_a_pods_life_has_the_sampled_shapes(desk: Any) -> None:
    request = sample("rest_v2/create_pod.request.json")
    status, pod = await desk.rest("POST", "/v2/pods", json=request)
    assert status == 201
    assert_same_shape(pod, sample("rest_v2/pod_provisioning.json"))
    assert (pod["status"], pod["actions"], pod["cost"]) == ("PROVISIONING", ["stop", "terminate"], 0.44)
    assert (pod["mounts"], pod["gpu"], pod["args"]) == (request["mounts"], request["gpu"], request["args"])
    await desk.advance(100)
    path = f"/v2/pods/{pod['id']}"
    _, running = await desk.rest("GET", path)
    assert_same_shape(running, sample("rest_v2/pod_running.json"))
    assert (running["status"], running["runtime"]["uptime"]) == ("RUNNING", 60)
    assert (running["createdAt"], running["startedAt"]) == ("2026-11-21T03:00:00Z", "2026-11-21T03:00:40Z")
    assert_same_shape((await desk.rest("GET", "/v2/pods?unknown=1"))[1], sample("rest_v2/list_pods.json"))
    _, exited = await desk.rest("POST", f"{path}/action", json={"action": "stop"})
    assert_same_shape(exited, sample("rest_v2/pod_exited.json"))
    assert (exited["status"], exited["actions"], exited["cost"]) == ("EXITED", ["start", "terminate"], 0.0)
    assert (exited["runtime"], exited["ssh"]["direct"]) == (None, None)
    _, starting = await desk.rest("POST", f"{path}/action", json={"action": "start"})
    assert (starting["status"], starting["actions"]) == ("STARTING", ["stop", "terminate"])
    assert await desk.rest("DELETE", path) == (204, None)
    assert await desk.rest("GET", path) == (404, sample("rest_v2/error_404.json"))
    assert (await desk.rest("GET", "/v2/pods"))[1] == {"pods": []}


async def test_the_public_port_changes_with_every_start(desk: Any) -> None:
    _, pod = await desk.create(ports=["22/tcp"])
    seen = []
    for _ in range(2):
        await desk.advance(60)
        _, running = await desk.rest("GET", f"/v2/pods/{pod['id']}")
        seen.append(running["runtime"]["ports"][0]["public"])
        await desk.rest("POST", f"/v2/pods/{pod['id']}/action", json={"action": "stop"})
        await desk.rest("POST", f"/v2/pods/{pod['id']}/action", json={"action": "start"})
    assert seen[0] != seen[1]


async def test_an_action_outside_the_matrix_is_a_conflict(desk: Any) -> None:
    _, pod = await desk.create()
    await desk.advance(40)
    path = f"/v2/pods/{pod['id']}/action"
    assert await desk.rest("POST", path, json={"action": "start"}) == (409, sample("rest_v2/error_409_action.json"))
    await desk.rest("POST", path, json={"action": "stop"})
    for action in ("stop", "restart"):
        assert (await desk.rest("POST", path, json={"action": action}))[0] == 409
    assert (await desk.rest("POST", path, json={"action": "explode"}))[0] == 422
    assert await desk.rest("POST", path, json={"action": "terminate"}) == (204, None)


async def test_a_restart_makes_a_new_container(desk: Any) -> None:
    _, pod = await desk.create()
    await desk.advance(40)
    _, row = await desk.rest("POST", f"/v2/pods/{pod['id']}/action", json={"action": "restart"})
    assert row["status"] == "STARTING"
    await desk.advance(15)
    assert (await desk.truth(pod["id"]))["boots"] == 2


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"name": "x"}, ["$: missing property 'gpu'"]),
        (
            {"name": "x", "gpu": {"id": "y"}, "interruptible": True, "bid": 1},
            ["$: additional properties 'interruptible', 'bid' not allowed"],
        ),
        ({"name": "x", "gpu": {"id": "y", "count": "2"}}, ["$.gpu.count: got string, want integer"]),
        ({"name": "x", "gpu": {"id": "y", "count": True}}, ["$.gpu.count: got boolean, want integer"]),
        (
            {"name": "x", "gpu": {"id": "y"}, "mounts": {"persistent": {"size": 5, "path": "/w"}}},
            ["$.mounts.persistent.size: must be >= 10"],
        ),
        ({"name": "x", "gpu": {"id": "y"}, "cloud": "ALL"}, ["$.cloud: value must be one of SECURE, COMMUNITY"]),
        ({"name": "x", "gpu": {"id": "y"}, "ports": ["22/tcp", 1]}, ["$.ports[1]: got integer, want string"]),
        ([], ["$: got another type, want object"]),
    ],
)
async def test_a_body_outside_the_schema_lists_its_mistakes(desk: Any, body: Any, errors: list[str]) -> None:
    status, problem = await desk.rest("POST", "/v2/pods", json=body)
    assert status == 422
    assert problem == {**sample("rest_v2/error_422.json"), "errors": errors}
    assert await desk.kinds() == []


async def test_problems(open_desk: Any) -> None:
    desk = await open_desk(runpod_balance=Decimal(0))
    assert await desk.rest("GET", "/v2/pods", key=None) == (401, sample("rest_v2/error_401.json"))
    assert (await desk.rest("GET", "/v2/pods", key="wrong"))[0] == 401
    assert await desk.create() == (402, sample("rest_v2/error_402_balance.json"))
    await desk.emu("POST", "balance", amount=100)
    full = await desk.create(gpu={"id": "No Such GPU"})
    assert full == (400, sample("rest_v2/error_400_capacity.json"))
    assert (await desk.create(image=""))[0] == 400
    assert (await desk.create(mounts={"persistent": {"size": 10, "path": "relative"}}))[0] == 400
    assert (await desk.rest("POST", "/v2/pods", data=b"{"))[0] == 400
    async with desk.http.get(f"{desk.url}/v2/pods/none", headers=desk.headers()) as response:
        assert response.content_type == "application/problem+json"


async def test_v1_is_gone(desk: Any) -> None:
    for method, path in (("POST", "/v1/pods"), ("GET", "/v1/pods/x"), ("GET", "/v1/billing/pods")):
        status, body = await desk.rest(method, path)
        assert (status, body["status"]) == (410, 410)


async def test_spot_pods_are_seen_but_not_resumed(desk: Any) -> None:
    pod_id = await desk.running()
    _, row = await desk.rest("GET", f"/v2/pods/{pod_id}")
    assert (row["status"], row["cost"]) == ("RUNNING", 0.25)
    await desk.emu("POST", "rival", pod_id=pod_id, bid=0.9)
    _, row = await desk.rest("GET", f"/v2/pods/{pod_id}")
    assert (row["status"], row["cost"]) == ("EXITED", 0.0)
    status, problem = await desk.rest("POST", f"/v2/pods/{pod_id}/action", json={"action": "start"})
    assert (status, problem["detail"]) == (400, "Cannot resume a spot pod as an on demand pod.")


async def test_a_full_host(desk: Any) -> None:
    _, pod = await desk.create()
    await desk.rest("POST", f"/v2/pods/{pod['id']}/action", json={"action": "stop"})
    await desk.emu("POST", "on_demand_arrival", pod_id=pod["id"])
    status, problem = await desk.rest("POST", f"/v2/pods/{pod['id']}/action", json={"action": "start"})
    assert (status, problem["detail"]) == (
        400,
        "There are not enough free GPUs on the host machine to start this pod.",
    )


async def test_patch(desk: Any) -> None:
    _, pod = await desk.create()
    await desk.advance(40)
    path = f"/v2/pods/{pod['id']}"
    _, row = await desk.rest("PATCH", path, json={"name": "renamed", "locked": True})
    assert (row["name"], row["locked"], row["status"]) == ("renamed", True, "RUNNING")
    _, row = await desk.rest("PATCH", path, json={"env": {"A": "1"}, "args": "sleep 9"})
    assert (row["env"], row["args"], row["status"]) == ({"A": "1"}, "sleep 9", "STARTING")
    assert (await desk.rest("PATCH", path, json={"gpu": {}}))[0] == 422


async def test_a_pods_own_key(desk: Any) -> None:
    _, mine = await desk.create()
    _, other = await desk.create()
    key = desk.sandbox.runpod.pods[mine["id"]].api_key
    assert (await desk.rest("GET", f"/v2/pods/{mine['id']}", key=key))[0] == 200
    assert (await desk.rest("GET", f"/v2/pods/{other['id']}", key=key))[0] == 403
    assert (await desk.rest("GET", "/v2/pods", key=key))[0] == 403
    assert (await desk.rest("GET", "/v2/billing/pods", key=key))[0] == 403
    assert (await desk.rest("DELETE", f"/v2/pods/{mine['id']}", key=key))[0] == 204


async def test_catalogue(desk: Any) -> None:
    _, plain = await desk.rest("GET", "/v2/catalog/gpus")
    assert "availability" not in plain["gpus"][0]
    status, problem = await desk.rest("GET", "/v2/catalog/gpus?include=AVAILABILITY")
    assert (status, "product" in problem["detail"]) == (400, True)
    query = "include=AVAILABILITY&product=POD"
    _, full = await desk.rest("GET", f"/v2/catalog/gpus?{query}")
    known = sample("rest_v2/catalog_gpus.json")
    assert_same_shape(full, known)
    both = [gpu for gpu in full["gpus"] if gpu["id"] == known["gpus"][0]["id"]]
    assert both[0]["pool"] == known["gpus"][0]["pool"]
    _, many = await desk.rest("GET", f"/v2/catalog/gpus?{query}&count=8&cloud=COMMUNITY")
    assert {gpu["availability"] for gpu in many["gpus"]} == {"NONE"}
    for machine in (await desk.emu("GET", "machines"))["machines"]:
        await desk.emu("POST", "on_demand_arrival", machine_id=machine["machine_id"])
    _, rented = await desk.rest("GET", f"/v2/catalog/gpus?{query}")
    assert {gpu["availability"] for gpu in rented["gpus"]} == {"NONE"}
    _, places = await desk.rest("GET", "/v2/catalog/datacenters?include=GPU_AVAILABILITY")
    assert places["dataCenters"][0]["gpuAvailability"][0]["availability"] == "NONE"


# --- rate limits


async def test_every_answer_to_a_known_key_shows_the_limits(open_desk: Any) -> None:
    desk = await open_desk(enforce_rate_limits=True)
    known = sample("rest_v2/error_429.headers_and_body.json")
    for n in range(60):
        async with desk.http.get(f"{desk.url}/v2/pods", headers=desk.headers()) as response:
            assert response.status == 200
            assert response.headers["RateLimit"].startswith(f'"minute";r={59 - n};t=60, "hour";r={2999 - n};t=3600')
            assert response.headers["RateLimit-Policy"] == known["headers"]["RateLimit-Policy"]
            assert response.headers["x-request-id"]
    await desk.advance(48)
    async with desk.http.get(f"{desk.url}/v2/pods", headers=desk.headers()) as response:
        assert response.status == 429
        assert response.headers["Retry-After"] == known["headers"]["Retry-After"]
        assert await response.json(content_type=None) == known["body"]
    await desk.advance(12)
    assert (await desk.rest("GET", "/v2/pods"))[0] == 200


# --- logs


async def events(desk: Any, path: str, count: int, **headers: str) -> list[dict[str, Any]]:
    """The first events of a stream, each with its ``id``."""
    found: list[dict[str, Any]] = []
    async with desk.http.get(f"{desk.url}{path}", headers=desk.headers() | headers) as response:
        assert response.content_type == "text/event-stream"
        assert response.headers["x-request-id"]
        event_id = ""
        while len(found) < count:
            line = (await response.content.readline()).decode().rstrip("\n")
            if line.startswith("id: "):
                event_id = line[4:]
            elif line.startswith("data: "):
                found.append({"id": event_id, **json.loads(line[6:])})
    return found


async def test_logs_are_a_stream_that_can_be_taken_up_again(desk: Any) -> None:
    pod_id = await desk.running()
    pod = desk.sandbox.runpod.pods[pod_id]
    for n in range(3):
        pod.write_log(desk.sandbox.runpod.now, "container", f"line {n}")
    path = f"/v2/pods/{pod_id}/logs"
    everything = await events(desk, path, 5)
    assert [event["source"] for event in everything] == ["system"] * 2 + ["container"] * 3
    assert everything[1] == {
        "id": "2026-11-21T03:00:40Z/000000000002",
        "ts": "2026-11-21T03:00:40Z",
        "source": "system",
        "line": "start container",
    }
    theirs = (SAMPLES / "rest_v2/pod_logs.sse.txt").read_text().split("\n")
    assert theirs[0] == f"id: 2026-06-01T12:02:03Z/{1:012d}"
    assert set(json.loads(theirs[1].removeprefix("data: "))) == {"ts", "source", "line"}
    assert [event["line"] for event in await events(desk, f"{path}?source=container&tail=2", 2)] == ["line 1", "line 2"]
    assert [event["line"] for event in await events(desk, f"{path}?since=2026-11-21T03:00:10Z", 2)] == [
        "start container",
        "line 0",
    ]
    again = await events(desk, path, 2, **{"Last-Event-ID": everything[2]["id"]})
    assert [event["line"] for event in again] == ["line 1", "line 2"]
    following = asyncio.create_task(events(desk, f"{path}?tail=0", 1))

    def is_followed() -> bool:
        """Only what is written once somebody follows is heard."""
        pod.write_log(desk.sandbox.runpod.now, "container", "live")
        return following.done()

    await desk.eventually(is_followed)
    assert (await following)[0]["line"] == "live"
    for wrong in ("source=disk", "tail=5001", "tail=-1", "since=yesterday"):
        assert (await desk.rest("GET", f"{path}?{wrong}"))[0] == 400


async def test_a_stream_ends_with_its_pod(desk: Any) -> None:
    pod_id = await desk.running()
    async with desk.http.get(f"{desk.url}/v2/pods/{pod_id}/logs", headers=desk.headers()) as response:
        await desk.terminate(pod_id)
        text = await response.text()
    assert "start container" in text


async def test_a_log_snapshot(desk: Any) -> None:
    pod_id = await desk.running()
    _, both = await desk.rest("GET", f"/hapi/v1/pod/{pod_id}/logs")
    known = sample("hapi/pod_logs_snapshot.json")
    assert set(both) == set(known)
    assert both["system"][1] == "2026-11-21T03:00:40Z start container"
    _, one = await desk.rest("GET", f"/hapi/v1/pod/{pod_id}/logs?type=system")
    assert set(one) == {"system"}


# --- billing


async def test_billing_equals_the_books_and_comes_late(open_desk: Any) -> None:
    desk = await open_desk(runpod_billing_lag_s=3600.0, runpod_network_volumes=(STORE,))
    pod_id = await desk.running()
    await desk.advance(3560)
    assert (await desk.rest("GET", "/v2/billing/pods"))[1]["records"] == []
    await desk.stop(pod_id)
    await desk.advance(30 * 3600)
    await desk.terminate(pod_id)
    await desk.advance(3600)
    book = (await desk.emu("GET", "books"))["books"][0]
    assert book["cost"]["gpu"] == "0.250000000"
    assert Decimal(book["cost"]["disk"]) == Decimal("0.002777778") + Decimal("0.083333333")
    _, billing = await desk.rest(
        "GET", f"/v2/billing/pods?bucketSize=day&startTime=2026-11-21T00:00:00Z&podId={pod_id}"
    )
    assert_same_shape(billing, sample("rest_v2/billing_pods.json"))
    assert billing["metadata"]["recordCount"] == 2
    assert f"{sum(Decimal(str(record['totalAmount'])) for record in billing['records']):f}" == book["billed"]
    assert abs(Decimal(book["billed"]) - Decimal(book["total"])) <= Decimal("2e-9")
    _, hours = await desk.rest("GET", "/v2/billing/pods?bucketSize=hour&lastN=48")
    assert [record["gpuAmount"] for record in hours["records"]][:2] == [0.25, 0.0]
    _, volumes = await desk.rest("GET", "/v2/billing/network-volumes?bucketSize=day&lastN=3")
    assert volumes["records"][0]["networkVolumeId"] == STORE.id
    for wrong in ("bucketSize=minute", "startTime=now", "lastN=0", "lastN=x"):
        assert (await desk.rest("GET", f"/v2/billing/pods?{wrong}"))[0] == 400


async def test_a_network_volume_takes_the_place_of_a_volume(open_desk: Any) -> None:
    desk = await open_desk(runpod_network_volumes=(STORE,))
    mounts = {"network": [{"volumeId": STORE.id, "path": "/workspace"}]}
    gpu = {"id": "NVIDIA GeForce RTX 4090"}
    status, pod = await desk.create(mounts=mounts, gpu=gpu, cloud="SECURE")
    assert (status, pod["dataCenterId"], pod["mounts"]) == (201, "US-KS-2", mounts)
    assert (await desk.create(mounts=mounts, gpu=gpu))[0] == 400
    assert (await desk.create(mounts={"network": [{"volumeId": "x", "path": "/w"}]}, cloud="SECURE"))[0] == 400
    user = (await desk.gql("{myself{networkVolumes{id size dataCenterId}}}"))["myself"]
    assert user["networkVolumes"] == [{"id": STORE.id, "size": 50, "dataCenterId": "US-KS-2"}]
