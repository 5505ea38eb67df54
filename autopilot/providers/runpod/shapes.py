"""The market's answers as they were recorded: what the adapter reads of them, and what else is known to be there.

A field that is read here and not by ``wire``, or the other way round, fails a test. Source: docs/providers/runpod.md.
GraphQL gives what it is asked for, so that its shapes are those of ``queries``.
"""

from __future__ import annotations

from autopilot.providers.drift.shape import BOOLEAN, LIST, NULL, NUMBER, OBJECT, TEXT, Field, Shape, ignored, read
from autopilot.providers.runpod import queries

_ID = r"[A-Za-z0-9_-]{1,64}"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*"


def _graphql(answer: str, data: dict[str, Field]) -> Shape:
    """The body of an answer whose ``data`` holds these fields."""
    return Shape(
        answer,
        {
            **read("data", OBJECT, inside=Shape("", data)),
            **read("errors", LIST, NULL, optional=True),
            **ignored("extensions", OBJECT, optional=True),
        },
    )


def _changed(operation: str) -> Shape:
    """Of a mutation, whose pod is null where there is none to be had."""
    pod = Shape("", read("id", TEXT, form=_ID))
    return _graphql("answer to a change", read(operation, OBJECT, NULL, inside=pod))


POD = Shape(
    "pod",
    {
        **read("id", TEXT, form=_ID),
        **read("name", TEXT),
        **read("podType", TEXT, money=True, words="INTERRUPTABLE BID RESERVED BACKGROUND"),
        **read("desiredStatus", TEXT, words="CREATED RUNNING RESTARTING EXITED PAUSED DEAD TERMINATED"),
        **read("costPerHr", NUMBER, money=True),
        **read("lowestBidPriceToResume", NUMBER, NULL, money=True),
        **read("gpuCount containerDiskInGb volumeInGb", NUMBER),
        **read("machineId", TEXT, NULL),
        **read("lastStatusChange", TEXT, NULL, form=r"((Rented|Exited|Terminated|Resumed) by \w+|Outbid)(:.*)?|"),
        **read("lastStartedAt createdAt", TEXT, NULL, form=_TIME),
        **read(
            "machine",
            OBJECT,
            NULL,
            inside=Shape("", {**read("gpuDisplayName gpuTypeId", TEXT, NULL), **read("secureCloud", BOOLEAN, NULL)}),
        ),
        **read("runtime", OBJECT, NULL, inside=Shape("", ignored("uptimeInSeconds", NUMBER))),
    },
)
_BALANCE = read("clientBalance", NUMBER, money=True)
_GPU_TYPE = {**read("id displayName", TEXT), **read("memoryInGb", NUMBER)}
_POOL = Shape(
    "",
    {
        **read("minimumBidPrice uninterruptablePrice", NUMBER, NULL, money=True),
        **read("stockStatus", TEXT, NULL, words="High Medium Low None"),
    },
)
GPU_TYPE = Shape("kind of GPU", _GPU_TYPE)
PRICED_GPU_TYPE = Shape(
    "price of a GPU",
    {
        **_GPU_TYPE,
        **read("securePrice communityPrice secureSpotPrice communitySpotPrice", NUMBER, NULL, money=True),
        **read("secure community", OBJECT, NULL, inside=_POOL),
    },
)
SWEEP = _graphql("account", read("myself", OBJECT, inside=Shape("", {**_BALANCE, **read("pods", LIST, inside=POD)})))
BALANCE = _graphql("balance", read("myself", OBJECT, inside=Shape("", _BALANCE)))
ONE_POD = _graphql("single pod", read("pod", OBJECT, NULL, inside=POD))
GPU_TYPES = Shape("kinds of GPU", read("gpuTypes", LIST, inside=GPU_TYPE))
PRICES = _graphql("prices", read("gpuTypes", LIST, inside=PRICED_GPU_TYPE))
PROBE = Shape("answer to a probe", {**read("data", OBJECT), **ignored("extensions", OBJECT, optional=True)})
SPOT_RENTED = _changed(queries.SPOT_OPERATION)
ON_DEMAND_RENTED = _changed(queries.ON_DEMAND_OPERATION)
SPOT_RESUMED = _changed(queries.RESUME_SPOT_OPERATION)
RESUMED = _changed(queries.RESUME_OPERATION)

GRAPHQL_REFUSAL = Shape(
    "GraphQL refusal",
    {
        **read(
            "errors",
            LIST,
            inside=Shape(
                "",
                {
                    **read("message", TEXT),
                    **read(
                        "extensions",
                        OBJECT,
                        optional=True,
                        inside=Shape(
                            "",
                            read(
                                "code",
                                TEXT,
                                optional=True,
                                words="RUNPOD SUPPLY_CONSTRAINT INSUFFICIENT_BALANCE UNAUTHENTICATED FORBIDDEN"
                                " GRAPHQL_VALIDATION_FAILED GRAPHQL_PARSE_FAILED BAD_USER_INPUT INTERNAL_SERVER_ERROR",
                            ),
                            is_open=True,
                        ),
                    ),
                    **ignored("path locations", LIST, optional=True),
                },
            ),
        ),
        **ignored("data", OBJECT, NULL, optional=True),
        **ignored("extensions", OBJECT, optional=True),
    },
)

REST_POD = Shape(
    "REST pod",
    {
        **read("id", TEXT, form=_ID),
        **read("name", TEXT),
        **read("status", TEXT, words="PROVISIONING STARTING RUNNING EXITED ERROR TERMINATED"),
        **read("cost", NUMBER, money=True),
        **read(
            "env",
            OBJECT,
            money=True,
            inside=Shape(
                "", read("AUTOPILOT_CAPACITY", TEXT, money=True, optional=True, words="spot on_demand"), is_open=True
            ),
        ),
        **read("gpu", OBJECT, NULL, inside=Shape("", {**read("id", TEXT), **read("count", NUMBER)})),
        **read("disk", NUMBER),
        **read(
            "mounts",
            OBJECT,
            inside=Shape(
                "",
                {
                    **read(
                        "persistent",
                        OBJECT,
                        optional=True,
                        inside=Shape("", {**read("size", NUMBER), **ignored("path", TEXT)}),
                    ),
                    **ignored("network", LIST, optional=True),
                },
            ),
        ),
        **read("cloud", TEXT, words="SECURE COMMUNITY"),
        **read("createdAt startedAt", TEXT, NULL, form=_TIME),
        **ignored("image args", TEXT),
        **ignored("dataCenterId cudaVersion registry", TEXT, NULL),
        **ignored("template", TEXT, OBJECT, NULL),
        **ignored("ports actions", LIST),
        **ignored("locked", BOOLEAN),
        **ignored("globalNetworking", OBJECT),
        **ignored("ssh runtime", OBJECT, NULL),
    },
)
REST_PODS = Shape(
    "list of REST pods",
    {**read("pods", LIST, inside=REST_POD), **read("nextCursor next_cursor next", TEXT, NULL, optional=True)},
)
_REST_GPU_TYPE = {
    **read("id name", TEXT),
    **read("memory", NUMBER),
    **ignored("pool manufacturer", TEXT, NULL),
}
_PER_CLOUD = "secure community"
REST_GPU_TYPE = Shape(
    "REST kind of GPU",
    {**_REST_GPU_TYPE, **ignored(_PER_CLOUD, BOOLEAN), **ignored("price maxCount", OBJECT)},
)
REST_PRICED_GPU_TYPE = Shape(
    "REST price of a GPU",
    {
        **_REST_GPU_TYPE,
        **read(_PER_CLOUD, BOOLEAN),
        **read(
            "price",
            OBJECT,
            inside=Shape("", {**read(_PER_CLOUD, NUMBER, NULL, money=True), **ignored("serverless", NUMBER, NULL)}),
        ),
        **read("maxCount", OBJECT, inside=Shape("", read(_PER_CLOUD, NUMBER, NULL))),
        **read("availability", TEXT, words="NONE LOW MEDIUM HIGH"),
        **ignored("dataCenters cudaVersions", LIST),
    },
)
REST_GPU_TYPES = Shape("REST kinds of GPU", read("gpus", LIST, inside=REST_GPU_TYPE))
REST_PRICES = Shape("REST prices", read("gpus", LIST, inside=REST_PRICED_GPU_TYPE))
BILL = Shape(
    "bill",
    {
        **read("podId", TEXT, form=_ID),
        **read("startTime endTime", TEXT, form=_TIME),
        **read("totalAmount diskAmount", NUMBER, money=True),
        **ignored("gpuAmount cpuAmount", NUMBER),
    },
)
BILLS = Shape(
    "list of bills",
    {
        **read("records", LIST, inside=BILL),
        **read(
            "metadata",
            OBJECT,
            inside=Shape(
                "",
                {
                    **read("recordCount", NUMBER),
                    **ignored("query totals", OBJECT),
                    **ignored("uniquePodCount", NUMBER),
                },
            ),
        ),
    },
)
LOGIN = Shape("registry login", {**read("id", TEXT, form=_ID), **read("name", TEXT)})
LOGINS = Shape("list of registry logins", read("registries", LIST, inside=LOGIN))
HOST_LOG_LINE = Shape("line of a host's log", {**read("line", TEXT), **ignored("ts source", TEXT)})
REST_REFUSAL = Shape(
    "REST refusal",
    {
        **read("detail error message", TEXT, optional=True),
        **read("errors", LIST, optional=True),
        **ignored("title type instance", TEXT, optional=True),
        **ignored("status", NUMBER, optional=True),
    },
)
