"""The market's answers as they are documented: what the adapter reads of them, and what else is known to be there.

A field that is read here and not by ``wire``, or the other way round, fails a test. Source: docs/providers/mithril.md.
"""

from __future__ import annotations

from autopilot.providers.drift.shape import BOOLEAN, LIST, NULL, NUMBER, OBJECT, TEXT, AnswerShape, ignore, read
from autopilot.providers.mithril.wire import BID_STATUSES, INSTANCE_STATUSES

_ID = r"[A-Za-z0-9_-]{1,64}"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*"
_DOLLARS = r"\$?\d{1,6}(\.\d{1,4})?"
_INSTANCE_WORDS = " ".join(f"{word} STATUS_{word}" for word in sorted(INSTANCE_STATUSES))

TYPE = AnswerShape(
    "kind of machine",
    {
        **read("fid", TEXT, form=_ID),
        **read("name", TEXT),
        **read("num_gpus gpu_memory_gb", NUMBER, NULL),
        **read("local_storage_gb num_cpus ram_gb", NUMBER, NULL, optional=True),
        **ignore("gpu_type gpu_socket network_type", TEXT, NULL, optional=True),
    },
)
AUCTION = AnswerShape(
    "auction",
    {
        **read("instance_type", TEXT, form=_ID),
        **read("region", TEXT),
        **ignore("fid", TEXT),
        **ignore("last_instance_price lowest_allocated_price", TEXT, NULL, optional=True),
        **ignore("capacity", NUMBER, NULL),
        **ignore("adjustable_memory", BOOLEAN, OBJECT, LIST, NULL, optional=True),
        **ignore("default_image_version", TEXT, OBJECT, NULL, optional=True),
    },
)
PRICES = AnswerShape(
    "prices",
    {
        **read("spot_price_cents minimum_price_cents lowest_allocated_bid_cents", NUMBER, NULL, money=True),
        **read("dynamic_win_price_cents max_spot_price_cents", NUMBER, NULL, money=True, optional=True),
        **read("available_capacity", NUMBER, NULL, optional=True),
        **ignore("reserved_price_cents", NUMBER, NULL),
        **ignore("total_capacity", NUMBER, NULL, optional=True),
    },
)
PAST_PRICE = AnswerShape(
    "past price",
    {
        **read("spot_instance_price", TEXT, NULL, money=True, form=_DOLLARS),
        **read("timestamp", TEXT, form=_TIME),
        **ignore("reserved_instance_price", TEXT, NULL, optional=True),
        **ignore("instance_type region", TEXT, optional=True),
    },
)
PAST_SERIES = AnswerShape(
    "past prices of a pool",
    {
        **read("instance_type", TEXT, form=_ID),
        **read("region", TEXT, NULL),
        **read("timestamps spot_prices", LIST),
        **ignore("reserved_prices", LIST, NULL, optional=True),
        **ignore("region_disabled", BOOLEAN, NULL, optional=True),
    },
)
HISTORY = AnswerShape(
    "record of prices",
    {
        **read("series", LIST, inside=PAST_SERIES, optional=True),
        **read("complete", BOOLEAN, NULL, optional=True),
        **read("prices", LIST, inside=PAST_PRICE, optional=True),
    },
)
BID = AnswerShape(
    "bid",
    {
        **read("fid", TEXT, form=_ID),
        **read("name", TEXT),
        **read("status", TEXT, words=" ".join(sorted(BID_STATUSES))),
        **read("limit_price", TEXT, money=True, form=_DOLLARS),
        **read("instance_quantity", NUMBER, money=True),
        **read("instance_type", TEXT, form=_ID),
        **read("region", TEXT, NULL, optional=True),
        **read("instances", LIST),
        **ignore("project created_by created_at", TEXT, optional=True),
        **ignore("deactivated_at", TEXT, NULL, optional=True),
        **ignore("launch_specification", OBJECT, NULL, optional=True),
    },
)
INSTANCE = AnswerShape(
    "instance",
    {
        **read("fid", TEXT, form=_ID),
        **read("status", TEXT, words=_INSTANCE_WORDS),
        **read("bid", TEXT, NULL, form=_ID),
        **read("created_at", TEXT, NULL, form=_TIME),
        **ignore("name project created_by instance_type region", TEXT, NULL, optional=True),
        **ignore("reservation ssh_destination private_ip", TEXT, NULL, optional=True),
        **ignore("end_time", TEXT, NULL, optional=True),
    },
)
INSTANCE_STATUS = AnswerShape(
    "status of an instance",
    {
        **read("fid", TEXT, form=_ID),
        **read("status", TEXT, words=_INSTANCE_WORDS),
        **read("bid", TEXT, NULL, form=_ID),
        **read("created_at", TEXT, NULL, optional=True, form=_TIME),
        **ignore("name reservation end_time", TEXT, NULL, optional=True),
    },
)
BIDS = AnswerShape("list of bids", {**read("data", LIST, inside=BID), **read("next_cursor", TEXT, NULL, optional=True)})
INSTANCES = AnswerShape(
    "list of instances", {**read("data", LIST, inside=INSTANCE), **read("next_cursor", TEXT, NULL, optional=True)}
)
NAMED = AnswerShape("project or SSH key", {**read("fid", TEXT, form=_ID)}, is_open=True)
ENDED = AnswerShape("answer to an end", {}, is_open=True)
REFUSAL = AnswerShape("refusal", {**read("detail", TEXT, LIST)}, is_open=True)
