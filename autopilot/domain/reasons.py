"""Reason codes: why a job stands where it stands and why an action was taken (docs/reference/reasons.md)."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    # where a job stands
    SUBMITTED = "submitted"
    WAITING_FOR_OFFER = "waiting_for_offer"
    MARKET_UNKNOWN = "market_unknown"
    LAUNCHING = "launching"
    PULLING = "pulling"
    WORKING = "working"
    MOVING = "moving"
    COMPLETED = "completed"
    COMMAND_FAILED = "command_failed"
    NEVER_STARTED = "never_started"
    USER_CANCELLED = "user_cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"
    # why capacity was taken, changed or given up
    CHEAPEST = "cheapest"
    DEADLINE = "deadline"
    CHEAPER_ELSEWHERE = "cheaper_elsewhere"
    FLOOR_MOVED = "floor_moved"
    WAITING_FOR_PRICE = "waiting_for_price"
    OUTBID = "outbid"
    DISPLACED = "displaced"
    HOST_LOST = "host_lost"
    OUT_OF_CREDIT = "out_of_credit"
    STUCK_LOADING = "stuck_loading"
    AGENT_SILENT = "agent_silent"
    INVALID = "invalid"
    EXPIRING = "expiring"
    VANISHED = "vanished"
    WRONG_TERMS = "wrong_terms"
    REFUSED = "refused"
    NEVER_APPEARED = "never_appeared"
    DUPLICATE = "duplicate"
    ORPHAN = "orphan"
    PROMOTED = "promoted"
    RETRY = "retry"
    UNKNOWN = "unknown"
    # why the guard refused an action
    OVER_BUDGET = "over_budget"
    OVER_DAY_LIMIT = "over_day_limit"
    OVER_MONTH_LIMIT = "over_month_limit"
    OVER_RATE_LIMIT = "over_rate_limit"
    TOO_MANY_INSTANCES = "too_many_instances"
    TOO_MANY_LAUNCHES = "too_many_launches"
    SLOT_TAKEN = "slot_taken"
    BID_ABOVE_CEILING = "bid_above_ceiling"
    LOW_CREDIT = "low_credit"
