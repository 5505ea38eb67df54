"""GraphQL over HTTP: every sample's shape, validation against business errors, keys, teams, modes."""

from typing import Any

import pytest

from autopilot_lab.sandbox.runpod.exchange import ExchangeConfig
from tests.integration.sandbox_runpod.runpod_desk import RENT, START, Refusal, assert_same_shape, sample

SDK_POD = "graphql/pod_running.json"


def selection(value: Any) -> str:
    """The GraphQL selection set that asks for exactly the fields of a sample."""
    if isinstance(value, list):
        return selection(value[0]) if value else ""
    if not isinstance(value, dict):
        return ""
    return "{" + " ".join(name + selection(inner) for name, inner in value.items()) + "}"


def fields_of(name: str, field: str = "pod") -> str:
    return selection(sample(name)["data"][field])[1:-1]


async def refused(call: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await call
    return caught.value


# --- shapes


async def test_the_pod_rows_have_the_sampled_shapes_in_every_state(desk: Any) -> None:
    fields = fields_of(SDK_POD)
    pod_id = (await desk.rent(ports="22/tcp,8888/http", env=[{"key": "A", "value": "b=c"}], startSsh=True))["id"]
    initializing = await desk.pod(pod_id, fields)
    assert_same_shape(initializing, sample("graphql/pod_initializing.json")["data"]["pod"])
    assert (initializing["desiredStatus"], initializing["runtime"]) == ("RUNNING", None)
    assert initializing["lastStatusChange"] == (
        "Rented by User: Sat Nov 21 2026 03:00:00 GMT+0000 (Coordinated Universal Time)"
    )
    assert initializing["env"][0] == "A=b=c"
    assert initializing["env"][1].startswith("PUBLIC_KEY=ssh-ed25519")
    await desk.advance(100)
    running = await desk.pod(pod_id, fields)
    assert_same_shape(running, sample(SDK_POD)["data"]["pod"])
    assert running["uptimeSeconds"] == 60
    assert [(port["privatePort"], port["type"], port["isIpPublic"]) for port in running["runtime"]["ports"]] == [
        (22, "tcp", True),
        (8888, "http", False),
    ]
    sweep = sample("graphql/pod_running_sweep_fields.json")["data"]["pod"]
    rich = await desk.pod(pod_id, selection(sweep)[1:-1])
    assert_same_shape(rich, sweep)
    assert rich["createdAt"] == "2026-11-21T03:00:00.000Z"
    assert rich["latestTelemetry"]["state"] == "running"
    listed = sample("graphql/get_pods.json")["data"]
    assert_same_shape(await desk.gql(selection(listed)), listed)


async def test_the_texts_of_every_end(desk: Any) -> None:
    ends = {
        "exited_by_user": "Exited by user: Sat Nov 21 2026 03:00:40 GMT+0000 (Coordinated Universal Time)",
        "exited_outbid": "Outbid: Sat Nov 21 2026 03:00:40 GMT+0000 (Coordinated Universal Time)",
    }
    stopped, outbid = await desk.rent(), await desk.rent()
    await desk.advance(40)
    await desk.stop(stopped["id"])
    await desk.emu("POST", "rival", pod_id=outbid["id"], bid=0.9)
    for pod, (name, text) in zip((stopped, outbid), ends.items(), strict=True):
        theirs = sample(f"graphql/pod_{name}.json")["data"]["pod"]
        ours = await desk.pod(pod["id"], fields_of(SDK_POD))
        assert_same_shape(ours, theirs)
        assert ours["desiredStatus"] == "EXITED"
        assert ours["lastStatusChange"] == text
        assert theirs["lastStatusChange"].split(": ")[0] == text.split(": ")[0]


async def test_a_boot_failure_exits_within_seconds(desk: Any) -> None:
    await desk.emu("POST", "fault", on="podRentInterruptable", kind="boot_failed")
    pod = await desk.rent()
    await desk.advance(6)
    row = await desk.pod(pod["id"], "desiredStatus runtime{uptimeInSeconds} lastStatusChange")
    assert row["desiredStatus"] == "EXITED"
    assert row["runtime"] is None
    assert row["lastStatusChange"].startswith("Exited by Runpod: ")


async def test_account_and_catalogue_have_the_sampled_shapes(desk: Any) -> None:
    for name in ("get_user", "myself_balance"):
        theirs = sample(f"graphql/{name}.json")["data"]["myself"]
        ours = (await desk.gql("{myself" + selection(theirs) + "}"))["myself"]
        assert_same_shape(ours, theirs)
    assert ours["clientBalance"] == 100
    assert ours["spendLimit"] == 80
    request = sample("graphql/gpuTypes_market.request.json")
    status, body = await desk.post(request, headers={"User-Agent": "x"})
    assert status == 200
    assert_same_shape(body, sample("graphql/gpuTypes_market.response.json"))
    assert [row["id"] for row in body["data"]["gpuTypes"]] == request["variables"]["ids"]
    nothing = await desk.gql('{gpuTypes(input:{id:"No Such GPU"}){id}}')
    assert nothing == sample("graphql/gpuTypes_not_found.json")["data"]
    assert (await desk.gql("{countryCodes dataCenters{id name listed}}"))["dataCenters"][0]["id"] == "EU-RO-1"


async def test_a_spot_request_with_variables_has_the_sampled_shape(desk: Any) -> None:
    status, body = await desk.post(sample("graphql/podRentInterruptable.request.json"))
    theirs = sample("graphql/podRentInterruptable.response.json")
    assert status == 200
    assert_same_shape(body, theirs)
    ours, known = body["data"]["podRentInterruptable"], theirs["data"]["podRentInterruptable"]
    for name in ("name", "podType", "desiredStatus", "costPerHr", "gpuCount", "lastStatusChange"):
        assert ours[name] == known[name]
    assert ours["machine"]["podHostId"].startswith(ours["id"] + "-")


async def test_prices_are_for_the_whole_pod_but_a_bid_is_per_gpu(desk: Any) -> None:
    machine = await desk.machine("NVIDIA GeForce RTX 3090", 4)
    query = 'query($n:Int){gpuTypes(input:{id:"NVIDIA GeForce RTX 3090"}){communitySpotPrice communityPrice'
    query += " lowestPrice(input:{gpuCount:$n,secureCloud:false}){minimumBidPrice uninterruptablePrice minVcpu"
    query += " availableGpuCounts stockStatus}}}"
    four = (await desk.gql(query, n=4))["gpuTypes"][0]
    assert four["lowestPrice"]["minimumBidPrice"] == pytest.approx(4 * float(machine["floor"]))
    assert four["lowestPrice"]["uninterruptablePrice"] == pytest.approx(4 * four["communityPrice"])
    assert four["lowestPrice"]["availableGpuCounts"] == [1, 2, 3, 4]
    pod = await desk.rent(bid=0.25, fields="id costPerHr gpuCount vcpuCount", gpuCount=4)
    assert (pod["costPerHr"], pod["gpuCount"], pod["vcpuCount"]) == (1.0, 4, 24)
    after = (await desk.gql(query, n=4))["gpuTypes"][0]["lowestPrice"]
    assert after["minimumBidPrice"] is None
    assert after["uninterruptablePrice"] == four["lowestPrice"]["uninterruptablePrice"]
    none = (await desk.gql(query, n=8))["gpuTypes"][0]["lowestPrice"]
    assert (none["minimumBidPrice"], none["stockStatus"], none["availableGpuCounts"]) == (None, None, [])


async def test_filters_of_the_market_query(desk: Any) -> None:
    async def stock(**wish: Any) -> Any:
        query = 'query($i:GpuLowestPriceInput){gpuTypes(input:{id:"NVIDIA RTX A4000"}){lowestPrice(input:$i)'
        return (await desk.gql(query + "{stockStatus uninterruptablePrice}}}", i=wish))["gpuTypes"][0]["lowestPrice"]

    assert (await stock())["uninterruptablePrice"] == 0.24
    assert (await stock(secureCloud=True))["uninterruptablePrice"] == 0.35
    assert (await stock(dataCenterId="EU-RO-1,US-KS-2"))["uninterruptablePrice"] == 0.35
    assert (await stock(countryCode="SE"))["uninterruptablePrice"] == 0.24
    for impossible in ({"dataCenterId": "US-KS-2"}, {"minVcpuCount": 64}, {"minMemoryInGb": 999}, {"minDisk": 99999}):
        assert await stock(**impossible) == {"stockStatus": None, "uninterruptablePrice": None}


# --- errors: validation is 400, business is 200


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "mutation{podFindAndDeployOnDemand(input:{interruptible:true}){id}}",
            'Field "interruptible" is not defined by type "PodFindAndDeployOnDemandInput".',
        ),
        (
            "mutation{podFindAndDeployOnDemand(input:{bidPerGpu:0.2}){id}}",
            'Field "bidPerGpu" is not defined by type "PodFindAndDeployOnDemandInput".',
        ),
        (
            'mutation{podBidResume(input:{podId:"x",bidPerGpu:1}){id}}',
            'Field "PodBidResumeInput.gpuCount" of required type "Int!" was not provided.',
        ),
        ("mutation{podEditBid{id}}", 'Cannot query field "podEditBid" on type "Mutation".'),
        (
            "{gpuTypes{lowestPrice{interruptablePrice}}}",
            'Cannot query field "interruptablePrice" on type "LowestPrice".',
        ),
        ("{__schema{types{name}}}", "introspection"),
    ],
)
async def test_a_document_outside_the_schema_is_a_400(desk: Any, query: str, message: str) -> None:
    status, body = await desk.post({"query": query})
    assert status == 400
    assert "data" not in body
    assert message in body["errors"][0]["message"]
    assert body["errors"][0]["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
    assert set(body["errors"][0]) == set(sample("graphql/error_validation_http400.json")["errors"][0])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"query": 'mutation{podStop(input:{podId:"a" b"}){id}}'}, "GRAPHQL_PARSE_FAILED"),
        ({"query": ""}, "GRAPHQL_PARSE_FAILED"),
        ({}, "BAD_REQUEST"),
        ([], "BAD_REQUEST"),
        ({"query": 5}, "BAD_REQUEST"),
        ({"query": "query A{countryCodes} query B{countryCodes}"}, "BAD_REQUEST"),
        ({"query": RENT % "id", "variables": {"input": {"gpuCount": 1}}}, "BAD_USER_INPUT"),
        ({"query": RENT % "id", "variables": {"input": {"bidPerGpu": 1, "terminateAfter": "soon"}}}, "BAD_USER_INPUT"),
    ],
)
async def test_a_body_that_is_no_valid_call_is_a_400(desk: Any, body: Any, code: str) -> None:
    status, answer = await desk.post(body)
    assert status == 400
    assert answer["errors"][0]["extensions"]["code"] == code
    assert await desk.kinds() == []


async def test_no_capacity(desk: Any) -> None:
    busy = "NVIDIA GeForce RTX 4090"
    for machine in (await desk.emu("GET", "machines"))["machines"]:
        await desk.emu("POST", "on_demand_arrival", machine_id=machine["machine_id"])
    spot = await refused(desk.rent(gpuTypeId=busy, bid=5))
    assert (spot.status, spot.body) == (200, sample("graphql/error_no_capacity_spot.json"))
    query = "mutation($i:PodFindAndDeployOnDemandInput){podFindAndDeployOnDemand(input:$i){id}}"
    ours = await refused(desk.gql(query, i={"gpuTypeId": busy, "imageName": "x"}))
    assert (ours.status, ours.body) == (200, sample("graphql/error_no_capacity_ondemand.json"))
    unknown = await refused(desk.rent(gpuTypeId="No Such GPU"))
    assert unknown.body == spot.body


async def test_a_bid_below_the_floor_is_told_in_the_configured_words(open_desk: Any) -> None:
    desk = await open_desk(runpod_exchange=ExchangeConfig(low_bid_text="Your bid is too low."))
    floor = float((await desk.machine())["floor"])
    low = await refused(desk.rent(bid=floor / 2))
    assert (low.message, low.code) == ("Your bid is too low.", "RUNPOD")
    await desk.rent(bid=0.3)


async def test_a_full_host_and_the_wrong_way_to_resume(desk: Any) -> None:
    pod_id = await desk.running()
    wrong = await refused(desk.resume_on_demand(pod_id))
    assert wrong.body == sample("graphql/error_resume_spot_as_ondemand.json")
    await desk.emu("POST", "on_demand_arrival", pod_id=pod_id)
    full = await refused(desk.resume(pod_id, 5))
    assert full.body == sample("graphql/error_resume_no_free_gpus.json")
    assert (await desk.pod(pod_id, "lowestBidPriceToResume"))["lowestBidPriceToResume"] is None


async def test_money_refuses(open_desk: Any) -> None:
    desk = await open_desk(runpod_balance="0.1")
    poor = await refused(desk.rent())
    assert poor.code == "INSUFFICIENT_BALANCE"
    assert poor.message == (
        "Insufficient balance to rent this pod. You need at least $0.26 (current: $0.10, deficit: $0.16)."
    )
    await desk.emu("POST", "balance", amount=1000)
    pod_id = (await desk.rent())["id"]
    await desk.stop(pod_id)
    await desk.emu("POST", "balance", amount="0.05")
    resume = await refused(desk.resume(pod_id, 0.25))
    assert resume.message.startswith("Insufficient balance to resume this spot pod. You need at least $0.26")
    await desk.emu("POST", "balance", amount=1000)
    huge = {"gpuTypeId": "NVIDIA H100 80GB HBM3", "gpuCount": 8, "bid": 11}
    assert (await refused(desk.rent(**huge))).body == sample("graphql/error_spend_limit.json")


async def test_an_unknown_pod(desk: Any) -> None:
    assert await desk.pod("nope") is None
    gone = await refused(desk.terminate("nope"))
    assert (gone.status, gone.body) == (200, sample("graphql/error_terminate_not_found.json"))


async def test_terminate_is_void_and_the_pod_is_gone(desk: Any) -> None:
    pod_id = await desk.running()
    done = await desk.terminate(pod_id)
    assert done == sample("graphql/podTerminate.json")["data"]
    assert {"pod": await desk.pod(pod_id)} == sample("graphql/pod_gone.json")["data"]
    assert (await desk.gql("{myself{pods{id}}}"))["myself"]["pods"] == []


async def test_a_bid_of_a_running_pod_cannot_be_changed(open_desk: Any) -> None:
    desk = await open_desk()
    pod_id = await desk.running()
    assert (await refused(desk.resume(pod_id, 0.9))).code == "RUNPOD"
    assert (await desk.truth(pod_id))["bid"] == "0.25"


async def test_or_the_attempt_is_ignored(open_desk: Any) -> None:
    desk = await open_desk(runpod_exchange=ExchangeConfig(bid_resume_of_running_fails=False))
    pod_id = await desk.running()
    row = (await desk.resume(pod_id, 0.9))["podBidResume"]
    assert row["costPerHr"] == 0.25
    assert (await desk.truth(pod_id))["boots"] == 1


async def test_the_mount_path_and_other_fields_are_checked(desk: Any) -> None:
    for wrong in (
        {"volumeMountPath": "../up"},
        {"volumeMountPath": "/a/../../b"},
        {"volumeMountPath": "/"},
        {"imageName": None},
        {"gpuCount": 0},
        {"volumeInGb": -1},
        {"bid": -1},
        {"env": [{"key": f"K{n}", "value": ""} for n in range(51)]},
    ):
        assert (await refused(desk.rent(**wrong))).code == "RUNPOD"
    assert await desk.kinds() == []


async def test_edit_resets_a_running_pod(desk: Any) -> None:
    pod_id = await desk.running()
    edit = "mutation($i:PodEditJobInput!){podEditJob(input:$i){dockerArgs env}}"
    wish = {"podId": pod_id, "dockerArgs": "sleep 5", "env": [{"key": "A", "value": "1"}]}
    assert (await desk.gql(edit, i=wish))["podEditJob"] == {"dockerArgs": "sleep 5", "env": ["A=1"]}
    assert (await desk.pod(pod_id, "runtime{uptimeInSeconds}"))["runtime"] is None
    await desk.advance(15)
    assert (await desk.truth(pod_id))["boots"] == 2


# --- keys and teams


async def test_keys(desk: Any) -> None:
    query = {"query": "{myself{id}}"}
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        status, _ = await desk.post(query, headers=headers | {"User-Agent": "x"})
        assert status == 401
    status, _ = await desk.post(query, headers={"User-Agent": "x"}, params={"api_key": desk.key})
    assert status == 200
    assert (await desk.gql("{gpuTypes{id} countryCodes}", key=None))["gpuTypes"]
    with pytest.raises(Refusal) as caught:
        await desk.gql("{gpuTypes{id} myself{id}}", key=None)
    assert caught.value.status == 401


async def test_a_pods_own_key_is_good_for_that_pod_alone(desk: Any) -> None:
    mine, other = await desk.running(), await desk.running()
    key = desk.sandbox.runpod.pods[mine].api_key
    unauthorized = await refused(desk.gql("{myself{id}}", key=key))
    assert (unauthorized.status, unauthorized.body) == (200, sample("graphql/error_unauthorized_200.json"))
    assert (await desk.pod(mine, key=key))["id"] == mine
    assert await desk.pod(other, key=key) is None
    assert (await refused(desk.terminate(other, key=key))).code == "RUNPOD"
    assert (await refused(desk.gql(RENT % "id", key=key, input={"bidPerGpu": 1, "imageName": "x"}))).code == "RUNPOD"
    await desk.terminate(mine, key=key)
    assert await desk.pod(mine) is None
    assert (await refused(desk.gql("{myself{id}}", key=key))).status == 401


async def test_teams_do_not_see_each_other(desk: Any) -> None:
    wish = {"bidPerGpu": 0.25, "gpuTypeId": "NVIDIA GeForce RTX 3090", "imageName": "x"}
    theirs = (await desk.gql(RENT % "id", team="team-1", input=wish))["podRentInterruptable"]["id"]
    assert (await desk.gql("{myself{pods{id}}}"))["myself"]["pods"] == []
    assert await desk.pod(theirs) is None
    assert (await refused(desk.stop(theirs))).message == ("pod not found to stop")
    assert (await desk.gql("{myself{pods{id}}}", team="team-1"))["myself"]["pods"] == [{"id": theirs}]


async def test_names_may_repeat(desk: Any) -> None:
    first, second = await desk.rent(name="same"), await desk.rent(name="same")
    assert first["id"] != second["id"]


async def test_pub_key_and_its_setting(desk: Any) -> None:
    answer = await desk.gql('mutation{updateUserSettings(input:{pubKey:"ssh-ed25519 BBBB"}){id pubKey}}')
    assert answer["updateUserSettings"]["pubKey"] == "ssh-ed25519 BBBB"


# --- modes


async def test_no_supply_accepts_the_mutation_and_never_places(desk: Any) -> None:
    pod_id = await desk.running()
    await desk.stop(pod_id)
    await desk.emu("POST", "mode", spot="no_supply")
    assert (await refused(desk.rent(bid=5))).body == sample("graphql/error_no_capacity_spot.json")
    assert (await refused(desk.resume(pod_id, 5))).message.startswith("There are not")
    prices = (await desk.gql('{gpuTypes(input:{id:"NVIDIA RTX A4000"}){lowestPrice{minimumBidPrice}}}'))["gpuTypes"]
    assert prices[0]["lowestPrice"]["minimumBidPrice"] > 0
    assert (await desk.create())[0] == 201


async def test_without_the_mutation_it_is_outside_the_schema(desk: Any) -> None:
    await desk.emu("POST", "mode", spot="mutation_removed")
    status, body = await desk.post({"query": "mutation{podRentInterruptable(input:{bidPerGpu:1}){id}}"})
    known = sample("graphql/error_spot_removed_http400.json")["errors"][0]
    assert status == 400
    assert (body["errors"][0]["message"], body["errors"][0]["extensions"]) == (known["message"], known["extensions"])
    status, body = await desk.post({"query": RENT % "id", "variables": {"input": {"bidPerGpu": 1}}})
    assert status == 400
    assert known["message"] in [error["message"] for error in body["errors"]]
    assert {error["extensions"]["code"] for error in body["errors"]} == {"GRAPHQL_VALIDATION_FAILED"}
    assert (await desk.gql("{myself{clientBalance}}"))["myself"]["clientBalance"] == 100


async def test_when_graphql_is_gone_rest_goes_on(open_desk: Any) -> None:
    desk = await open_desk(runpod_mode="graphql_gone")
    status, body = await desk.rest("POST", "/graphql", json={"query": "{countryCodes}"})
    assert (status, body["status"], "errors" in body) == (410, 410, False)
    assert (await desk.create())[0] == 201


async def test_timers_stop_and_terminate(desk: Any) -> None:
    pod_id = await desk.running(stopAfter="2026-11-21T04:00:00Z", terminateAfter="2026-11-21T05:00:00.000Z")
    await desk.advance(3600)
    assert (await desk.pod(pod_id))["desiredStatus"] == "EXITED"
    await desk.advance(3600)
    assert await desk.pod(pod_id) is None
    ends = [e for e in (await desk.emu("GET", "events"))["events"] if e["kind"] in ("pod.stopped", "pod.terminated")]
    assert [(event["at"], event["cause"]) for event in ends] == [
        (START.replace(hour=4).isoformat(), "timer"),
        (START.replace(hour=5).isoformat(), "timer"),
    ]
