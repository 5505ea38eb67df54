"""The real, unmodified SDK drives the sandbox."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.clock import ManualClock

SAMPLES = Path(__file__).parents[2] / "assets" / "vastai"


def sample(name: str) -> Any:
    return json.loads((SAMPLES / f"{name}.json").read_text())


async def test_search_with_a_string_query(desk: Any) -> None:
    query = (
        "gpu_name=RTX_4090 num_gpus=1 gpu_ram>=20 duration>=1 reliability>0.95 geolocation in [US,CA] "
        "cuda_vers>=12.1 driver_version>=535.86.05"
    )
    offers = await desk.sdk("search_offers", query, type="bid", order="min_bid,dph-", limit=5, storage=40)
    assert offers
    assert all(offer["gpu_name"] == "RTX 4090" and offer["num_gpus"] == 1 for offer in offers)
    assert {offer["geolocation"][-2:] for offer in offers} <= {"US", "CA"}
    assert [offer["min_bid"] for offer in offers] == sorted(offer["min_bid"] for offer in offers)


@pytest.mark.parametrize(("kind", "file"), [("bid", "offer_bid"), ("on-demand", "offer_ondemand")])
async def test_offer_rows_have_the_documented_fields_and_arithmetic(desk: Any, kind: str, file: str) -> None:
    row = await desk.offer(kind)
    expected = sample(file)["offers"][0]
    assert set(expected) <= set(row)
    assert set(row) - set(expected) <= {"datacenter"}
    assert row["dph_total"] == pytest.approx(row["dph_base"] + row["storage_cost"] * 10 / 720)
    assert (row["dph_base"] == row["min_bid"]) is (kind == "bid")
    assert row["is_bid"] is (kind == "bid")


async def test_implicit_defaults_hide_unverified_machines_and_disk_rows_need_to_be_survived(desk: Any) -> None:
    default = await desk.sdk("search_offers", query=None, limit=100)
    everything = await desk.sdk("search_offers", query={}, limit=100, no_default=True)
    assert {row["verification"] for row in default} == {"verified"}
    assert {row["verification"] for row in everything} == {"verified", "unverified"}
    hostile = next(row for row in everything if row["num_gpus"] == 0)
    assert (hostile["gpu_name"], hostile["min_bid"], hostile["cpu_cores"]) == ("N/A", None, None)


async def test_search_variants_agree(desk: Any) -> None:
    query = {"gpu_name": {"eq": "A100 SXM4"}, "type": "bid", "limit": 3, "order": [["min_bid", "asc"]]}
    by_post = (await desk.raw("POST", "/api/v0/bundles/", json=query))[1]["offers"]
    by_get = (await desk.raw("GET", "/api/v0/bundles/", params={"q": json.dumps(query)}, headers={}))[1]["offers"]
    by_put = (await desk.raw("PUT", "/api/v0/search/asks/", json={"select_cols": ["*"], "q": query}))[1]["offers"]
    assert by_post == by_get == by_put
    assert len(by_post) == 3


async def test_bundling_and_overlapping_chunks(desk: Any) -> None:
    machine = {"gpu_name": {"eq": "RTX 4090"}, "type": "bid", "limit": 100}
    bundled = (await desk.raw("POST", "/api/v0/bundles/", json=machine))[1]["offers"]
    chunks = (await desk.raw("POST", "/api/v0/bundles/", json=machine | {"disable_bundling": True}))[1]["offers"]
    keys = [(row["machine_id"], row["num_gpus"]) for row in bundled]
    assert len(keys) == len(set(keys)) < len(chunks)
    largest = max(chunks, key=lambda row: row["num_gpus"])
    of_one_machine = [row for row in chunks if row["machine_id"] == largest["machine_id"]]
    assert sorted(row["num_gpus"] for row in of_one_machine) == [1, 1, 1, 1, 2, 2, 4]
    assert all(set(row["gpu_ids"]) <= set(largest["gpu_ids"]) for row in of_one_machine)


async def test_nothing_is_found_by_offer_id(desk: Any) -> None:
    offer = await desk.offer()
    assert await desk.sdk("search_offers", query={"id": {"eq": offer["id"]}}, type="bid") == []


async def test_the_life_of_a_bid(desk: Any) -> None:
    offer = await desk.offer()
    reply = await desk.sdk(
        "create_instance", offer["id"], image="ubuntu:24.04", disk=10, price=0.5, label="ap1.x", env={"A": "b"}
    )
    assert set(reply) == set(sample("create_response_ok"))
    instance_id = reply["new_contract"]
    provisioning = await desk.row(instance_id)
    assert set(provisioning) == set(sample("instance_provisioning")["instances"])
    assert (provisioning["actual_status"], provisioning["start_date"], provisioning["ports"]) == (None, None, None)
    await desk.advance(5)
    assert (await desk.row(instance_id))["actual_status"] == "loading"
    await desk.advance(35)
    assert (await desk.row(instance_id))["ports"] == {}
    await desk.advance(5)
    running = await desk.sdk("show_instance", instance_id)
    assert (running["actual_status"], running["is_bid"], running["dph_base"]) == ("running", True, 0.5)
    assert running["instance"]["gpuCostPerHour"] == 0.5
    assert running["extra_env"] == {"A": "b"}
    assert "22/tcp" in running["ports"]
    assert await desk.sdk("change_bid", instance_id, price=0.6) == sample("change_bid_ok")
    assert (await desk.row(instance_id))["dph_base"] == 0.6
    assert (await desk.sdk("stop_instance", instance_id))["success"] is True
    assert (await desk.row(instance_id))["instance"]["gpuCostPerHour"] == 0
    assert (await desk.sdk("start_instance", instance_id))["success"] is True
    assert (await desk.sdk("label_instance", instance_id, "other"))["success"] is True
    assert (await desk.sdk("reboot_instance", instance_id))["success"] is True
    assert (await desk.sdk("destroy_instance", instance_id))["success"] is True
    assert (await desk.raw("GET", f"/api/v0/instances/{instance_id}/"))[1] == sample("instance_gone")
    assert (await desk.sdk("show_instances_v1", {"limit": 25}))["instances"] == []


async def test_omitting_the_price_rents_on_demand(desk: Any) -> None:
    offer = await desk.offer("on-demand")
    instance_id = await desk.rent(None)
    row = await desk.row(instance_id)
    assert (row["is_bid"], row["dph_base"]) == (False, offer["dph_base"])


async def test_outbid_and_queued_start_look_as_documented(desk: Any) -> None:
    instance_id = await desk.rent(0.5)
    await desk.advance(60)
    await desk.emu("POST", "rival", instance_id=instance_id, bid=0.6)
    states = ("intended_status", "cur_state", "next_state", "actual_status")
    lagging, outbid = sample("instance_outbid_lagging_actual"), sample("instance_outbid")
    row = await desk.row(instance_id)
    assert [row[name] for name in states] == [lagging["instances"][name] for name in states]
    await desk.advance(60)
    row = await desk.row(instance_id)
    assert [row[name] for name in states] == [outbid["instances"][name] for name in states]
    assert row["ports"] is None
    assert await desk.sdk("start_instance", instance_id) == sample("start_queued.http200")
    row, queued = await desk.row(instance_id), sample("instance_start_queued")["instances"]
    assert [row[name] for name in states] == [queued[name] for name in states]


async def test_the_inbox_names_the_price_to_beat(desk: Any) -> None:
    instance_id = await desk.rent(0.5)
    await desk.emu("POST", "rival", instance_id=instance_id, bid=0.6)
    notice = (await desk.raw("GET", "/api/v0/notifications/inbox/"))[1]["notifications"][0]
    assert set(notice) == set(sample("inbox_outbid"))
    assert notice["notif_type"] == "outbid"
    assert notice["associated_id"]["new_min_bid"] == 0.601
    assert notice["associated_id"]["your_bid"] == 0.5


async def test_a_losing_bid_is_http_200_with_a_contract(desk: Any) -> None:
    offer = await desk.offer()
    reply = await desk.sdk("create_instance", offer["id"], image="x", disk=10, price=0.01)
    assert set(reply) == set(sample("create_response_bid_too_low.http200"))
    assert reply["success"] is False
    row = await desk.row(reply["new_contract"])
    assert row["intended_status"] == row["cur_state"] == "stopped"
    await desk.advance(86_400)
    books = (await desk.emu("GET", "books"))["books"][0]
    assert Decimal(books["cost"]["disk"]) > 0
    assert Decimal(books["cost"]["gpu"]) == 0


async def test_paging_with_an_opaque_token(desk: Any) -> None:
    ids = [await desk.rent(0.01, label=f"l{n % 2}") for n in range(30)]
    first = await desk.sdk("show_instances_v1", {"limit": 100, "order_by": [{"col": "id", "dir": "asc"}]})
    assert (first["instances_found"], first["total_instances"]) == (25, 30)
    assert first["label_counts"] == {"l0": 15, "l1": 15}
    rest = await desk.sdk("show_instances_v1", {"limit": 25, "after_token": first["next_token"]})
    assert [row["id"] for row in first["instances"] + rest["instances"]] == ids
    assert rest["next_token"] is None
    assert len((await desk.sdk("show_instances_v1", {"limit": 0}))["instances"]) == 5
    filtered = await desk.sdk(
        "show_instances_v1", {"limit": 25, "select_filters": {"label": {"eq": "l1"}}, "select_cols": ["id", "nope"]}
    )
    assert filtered["total_instances"] == 15
    assert filtered["instances"][0] == {"id": ids[1], "nope": None}
    backwards = await desk.sdk("show_instances_v1", {"limit": 3, "order_by": [{"col": "id", "dir": "desc"}]})
    assert [row["id"] for row in backwards["instances"]] == ids[:-4:-1]
    await desk.advance(10)
    assert [row["id"] for row in await desk.sdk("show_instances")] == ids


async def test_charges_equal_the_books_to_rounding_across_midnight(desk: Any) -> None:
    instance_id = await desk.rent(0.5)
    await desk.advance(16 * 3600)
    await desk.sdk("change_bid", instance_id, price=0.4)
    await desk.advance(4 * 3600)
    await desk.emu("POST", "traffic", instance_id=instance_id, down_gb=10.24, up_gb=0.121)
    await desk.sdk("destroy_instance", instance_id)
    await desk.advance(7200)
    reply = await desk.sdk("show_invoices_v1", charges=True, start_date="2026-11-20", end_date="2026-11-23", limit=1)
    assert (reply["count"], reply["total"]) == (1, 2)
    second = await desk.sdk(
        "show_invoices_v1",
        charges=True,
        start_date="2026-11-20",
        end_date="2026-11-23",
        limit=1,
        next_token=reply["next_token"],
    )
    rows = reply["results"] + second["results"]
    assert second["next_token"] is None
    shape = sample("charges")["results"][0]
    assert all(set(row) == set(shape) for row in rows)
    assert all(set(item) == set(shape["items"][0]) for row in rows for item in row["items"])
    assert [row["end"] - row["start"] for row in rows] == [86_400, 86_400]
    for row in rows:
        assert row["amount"] == pytest.approx(sum(item["amount"] for item in row["items"]), abs=1e-9)
    book = (await desk.emu("GET", "books"))["books"][0]
    billed = sum(Decimal(str(row["amount"])) for row in rows)
    assert billed == Decimal(book["billed"])
    lines = sum(len(row["items"]) for row in rows)
    assert abs(billed - Decimal(book["total"])) <= lines * Decimal("0.0005")
    assert (await desk.sdk("show_user"))["credit"] == pytest.approx(100 - float(book["total"]), abs=1e-9)


async def test_two_runs_with_one_seed_have_one_history(open_desk: Any, tmp_path: Path) -> None:
    async def history(seed: int, name: str) -> Any:
        desk = await open_desk(ManualClock(), seed=seed, churn=True, state_dir=tmp_path / name)
        instance_id = await desk.rent(0.5)
        await desk.emu("POST", "fault", on="list", kind="http_503", times=None, probability=0.5)
        statuses = [(await desk.raw("GET", "/api/v1/instances/"))[0] for _ in range(12)]
        await desk.advance(6 * 3600)
        await desk.sdk("destroy_instance", instance_id)
        return statuses, (await desk.emu("GET", "events"))["events"], (await desk.emu("GET", "books"))["books"]

    once = await history(1, "a")
    assert set(once[0]) == {200, 503}
    assert once == await history(1, "b")
    assert once != await history(2, "c")
