"""The market's answers as they were recorded: what the adapter reads of them, and what else is known to be there.

A field that is read here and not by ``wire``, or the other way round, fails a test. Source: docs/providers/runpod.md.
GraphQL gives what it is asked for, so that its shapes are those of ``queries``.
"""

from __future__ import annotations

from autopilot.providers.drift.shape import BOOLEAN, LIST, NULL, NUMBER, OBJECT, TEXT, AnswerShape, Field, ignore, read
from autopilot.providers.runpod import queries

_ID = r"[A-Za-z0-9_-]{1,64}"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*"


def _graphql(answer: str, data: dict[str, Field]) -> AnswerShape:
    """The body of an answer whose ``data`` holds these fields."""
    return AnswerShape(
        answer,
        {
            **read("data", OBJECT, inside=AnswerShape("", data)),
            **read("errors", LIST, NULL, optional=True),
            **ignore("extensions", OBJECT, optional=True),
        },
    )


def _mutation(operation: str) -> AnswerShape:
    """Shape of a mutation, whose pod is null if none is available."""
    pod = AnswerShape("", read("id", TEXT, form=_ID))
    return _graphql("answer to a change", read(operation, OBJECT, NULL, inside=pod))


POD = AnswerShape(
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
            inside=AnswerShape(
                "", {**read("gpuDisplayName gpuTypeId", TEXT, NULL), **read("secureCloud", BOOLEAN, NULL)}
            ),
        ),
        **read("runtime", OBJECT, NULL, inside=AnswerShape("", ignore("uptimeInSeconds", NUMBER))),
    },
)
_BALANCE = read("clientBalance", NUMBER, money=True)
_GPU_TYPE = {**read("id displayName", TEXT), **read("memoryInGb", NUMBER)}
_POOL = AnswerShape(
    "",
    {
        **read("minimumBidPrice uninterruptablePrice", NUMBER, NULL, money=True),
        **read("stockStatus", TEXT, NULL, words="High Medium Low None"),
    },
)
GPU_TYPE = AnswerShape("kind of GPU", _GPU_TYPE)
PRICED_GPU_TYPE = AnswerShape(
    "price of a GPU",
    {
        **_GPU_TYPE,
        **read("securePrice communityPrice secureSpotPrice communitySpotPrice", NUMBER, NULL, money=True),
        **read("secure community", OBJECT, NULL, inside=_POOL),
    },
)
SWEEP = _graphql(
    "account", read("myself", OBJECT, inside=AnswerShape("", {**_BALANCE, **read("pods", LIST, inside=POD)}))
)
BALANCE = _graphql("balance", read("myself", OBJECT, inside=AnswerShape("", _BALANCE)))
ONE_POD = _graphql("single pod", read("pod", OBJECT, NULL, inside=POD))
GPU_TYPES = AnswerShape("kinds of GPU", read("gpuTypes", LIST, inside=GPU_TYPE))
PRICES = _graphql("prices", read("gpuTypes", LIST, inside=PRICED_GPU_TYPE))
PROBE = AnswerShape("answer to a probe", {**read("data", OBJECT), **ignore("extensions", OBJECT, optional=True)})
SPOT_RENTED = _mutation(queries.SPOT_OPERATION)
ON_DEMAND_RENTED = _mutation(queries.ON_DEMAND_OPERATION)
SPOT_RESUMED = _mutation(queries.RESUME_SPOT_OPERATION)
RESUMED = _mutation(queries.RESUME_OPERATION)

GRAPHQL_REFUSAL = AnswerShape(
    "GraphQL refusal",
    {
        **read(
            "errors",
            LIST,
            inside=AnswerShape(
                "",
                {
                    **read("message", TEXT),
                    **read(
                        "extensions",
                        OBJECT,
                        optional=True,
                        inside=AnswerShape(
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
                    **ignore("path locations", LIST, optional=True),
                },
            ),
        ),
        **ignore("data", OBJECT, NULL, optional=True),
        **ignore("extensions", OBJECT, optional=True),
    },
)

REST_POD = AnswerShape(
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
            inside=AnswerShape(
                "", read("AUTOPILOT_CAPACITY", TEXT, money=True, optional=True, words="spot on_demand"), is_open=True
            ),
        ),
        **read("gpu", OBJECT, NULL, inside=AnswerShape("", {**read("id", TEXT), **read("count", NUMBER)})),
        **read("disk", NUMBER),
        **read(
            "mounts",
            OBJECT,
            inside=AnswerShape(
                "",
                {
                    **read(
                        "persistent",
                        OBJECT,
                        optional=True,
                        inside=AnswerShape("", {**read("size", NUMBER), **ignore("path", TEXT)}),
                    ),
                    **ignore("network", LIST, optional=True),
                },
            ),
        ),
        **read("cloud", TEXT, words="SECURE COMMUNITY"),
        **read("createdAt startedAt", TEXT, NULL, form=_TIME),
        **ignore("image args", TEXT),
        **ignore("dataCenterId cudaVersion registry", TEXT, NULL),
        **ignore("template", TEXT, OBJECT, NULL),
        **ignore("ports actions", LIST),
        **ignore("locked", BOOLEAN),
        **ignore("globalNetworking", OBJECT),
        **ignore("ssh runtime", OBJECT, NULL),
    },
)
REST_PODS = AnswerShape(
    "list of REST pods",
    {**read("pods", LIST, inside=REST_POD), **read("nextCursor next_cursor next", TEXT, NULL, optional=True)},
)
_REST_GPU_TYPE = {
    **read("id name", TEXT),
    **read("memory", NUMBER),
    **ignore("pool manufacturer", TEXT, NULL),
}
_PER_CLOUD = "secure community"
REST_GPU_TYPE = AnswerShape(
    "REST kind of GPU",
    {**_REST_GPU_TYPE, **ignore(_PER_CLOUD, BOOLEAN), **ignore("price maxCount", OBJECT)},
)
REST_PRICED_GPU_TYPE = AnswerShape(
    "REST price of a GPU",
    {
        **_REST_GPU_TYPE,
        **read(_PER_CLOUD, BOOLEAN),
        **read(
            "price",
            OBJECT,
            inside=AnswerShape(
                "", {**read(_PER_CLOUD, NUMBER, NULL, money=True), **ignore("serverless", NUMBER, NULL)}
            ),
        ),
        **read("maxCount", OBJECT, inside=AnswerShape("", read(_PER_CLOUD, NUMBER, NULL))),
        **read("availability", TEXT, words="NONE LOW MEDIUM HIGH"),
        **ignore("dataCenters cudaVersions", LIST),
    },
)
REST_GPU_TYPES = AnswerShape("REST kinds of GPU", read("gpus", LIST, inside=REST_GPU_TYPE))
REST_PRICES = AnswerShape("REST prices", read("gpus", LIST, inside=REST_PRICED_GPU_TYPE))
BILL = AnswerShape(
    "bill",
    {
        **read("podId", TEXT, form=_ID),
        **read("startTime endTime", TEXT, form=_TIME),
        **read("totalAmount diskAmount", NUMBER, money=True),
        **ignore("gpuAmount cpuAmount", NUMBER),
    },
)
BILLS = AnswerShape(
    "list of bills",
    {
        **read("records", LIST, inside=BILL),
        **read(
            "metadata",
            OBJECT,
            inside=AnswerShape(
                "",
                {
                    **read("recordCount", NUMBER),
                    **ignore("query totals", OBJECT),
                    **ignore("uniquePodCount", NUMBER),
                },
            ),
        ),
    },
)
LOGIN = AnswerShape("registry login", {**read("id", TEXT, form=_ID), **read("name", TEXT)})
LOGINS = AnswerShape("list of registry logins", read("registries", LIST, inside=LOGIN))
HOST_LOG_LINE = AnswerShape("line of a host's log", {**read("line source", TEXT), **ignore("ts", TEXT)})
REST_REFUSAL = AnswerShape(
    "REST refusal",
    {
        **read("detail error message", TEXT, optional=True),
        **read("errors", LIST, optional=True),
        **ignore("title type instance", TEXT, optional=True),
        **ignore("status", NUMBER, optional=True),
    },
)
