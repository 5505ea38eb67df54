"""The market's error vocabulary, row by row → faults → outcomes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.reading import MESSAGE_LENGTH, Reply
from autopilot.providers.runpod import outcomes
from autopilot.providers.runpod.outcomes import Withdrawn
from autopilot.providers.runpod.reply import Answer, Fault, fault_in_text, understand
from tests.unit.providers_runpod.runpod_samples import answer, text

CLOUDFLARE = "<html><body>error code: 1010</body></html>"
SPOT = "podRentInterruptable"


def graphql_error(message: str, code: str = "RUNPOD", operation: str = SPOT, status: int = 200) -> Answer:
    error = {"message": message, "path": [operation], "extensions": {"code": code}}
    return understand(Reply(status, json.dumps({"errors": [error], "data": {operation: None}})))


def problem(status: int, detail: str, **more: Any) -> Answer:
    return understand(Reply(status, json.dumps({"title": "No", "status": status, "detail": detail, **more})))


@pytest.mark.parametrize(
    ("sample", "status", "fault"),
    [
        ("graphql/error_no_capacity_spot", 200, Fault.NO_CAPACITY),
        ("graphql/error_no_capacity_ondemand", 200, Fault.NO_CAPACITY),
        ("graphql/error_no_resources_machine", 200, Fault.NO_CAPACITY),
        ("rest_v1/error_no_capacity_http500", 500, Fault.NO_CAPACITY),
        ("rest_v2/error_400_capacity", 400, Fault.NO_CAPACITY),
        ("graphql/error_resume_no_free_gpus", 200, Fault.HOST_FULL),
        ("rest_v1/error_start_no_gpu", 500, Fault.HOST_FULL),
        ("graphql/error_resume_spot_as_ondemand", 200, Fault.WRONG_RESUME),
        ("graphql/error_spend_limit", 200, Fault.NO_CREDIT),
        ("graphql/error_balance_resume", 200, Fault.NO_CREDIT),
        ("rest_v2/error_402_balance", 402, Fault.NO_CREDIT),
        ("graphql/error_unauthorized_200", 200, Fault.NO_RIGHTS),
        ("rest_v2/error_401", 401, Fault.NO_RIGHTS),
        ("graphql/error_terminate_not_found", 200, Fault.NOT_FOUND),
        ("rest_v2/error_404", 404, Fault.NOT_FOUND),
        ("graphql/error_internal", 200, Fault.TRANSIENT),
        ("graphql/error_spot_removed_http400", 400, Fault.INVALID),
        ("graphql/error_validation_http400", 400, Fault.INVALID),
        ("rest_v2/error_409_action", 409, Fault.INVALID),
        ("rest_v2/error_422", 422, Fault.INVALID),
        ("graphql/podRentInterruptable.response", 200, None),
        ("graphql/podTerminate", 200, None),
        ("graphql/pod_gone", 200, None),
        ("rest_v2/pod_running", 201, None),
    ],
)
def test_fault_of_each_recorded_body(sample: str, status: int, fault: Fault | None) -> None:
    assert answer(sample, status).fault is fault


@pytest.mark.parametrize(
    "message",
    [
        "There are no instances available with the request specifications. Please try again later.",
        "There are no longer any instances available with the request specifications. Please try again later.",
        "There are no longer any instances available with the requested specifications. Please refresh and try again.",
        "There are NO INSTANCES currently available",
        "This machine does not have the resources to deploy your pod. Please try a different machine",
        "Could not find any pods with required specifications",
    ],
)
def test_every_text_for_no_capacity(message: str) -> None:
    assert graphql_error(message).fault is Fault.NO_CAPACITY
    assert graphql_error(message, code="INTERNAL_SERVER_ERROR").fault is Fault.NO_CAPACITY
    assert problem(400, message).fault is Fault.NO_CAPACITY


def test_a_code_is_read_before_the_text() -> None:
    assert graphql_error("pod not found", code="SUPPLY_CONSTRAINT").fault is Fault.NO_CAPACITY
    assert graphql_error("any text", code="INSUFFICIENT_BALANCE").fault is Fault.NO_CREDIT


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (401, "", Fault.NO_RIGHTS),
        (403, '{"title": "Forbidden", "status": 403}', Fault.NO_RIGHTS),
        (403, CLOUDFLARE, Fault.TRANSIENT),
        (200, CLOUDFLARE, Fault.TRANSIENT),
        (200, "", Fault.TRANSIENT),
        (200, "[1]", Fault.TRANSIENT),
        (200, '{"data": {"podRent', Fault.TRANSIENT),
        (404, CLOUDFLARE, Fault.TRANSIENT),
        (402, CLOUDFLARE, Fault.TRANSIENT),
        (410, CLOUDFLARE, Fault.WITHDRAWN),
        (410, '{"error": "gone"}', Fault.WITHDRAWN),
        (429, CLOUDFLARE, Fault.RATE_LIMITED),
        (429, '{"title": "Too Many Requests"}', Fault.RATE_LIMITED),
        (408, "{}", Fault.TRANSIENT),
        (500, "{}", Fault.TRANSIENT),
        (502, CLOUDFLARE, Fault.TRANSIENT),
        (503, '{"detail": "later"}', Fault.TRANSIENT),
        (302, "{}", Fault.TRANSIENT),
        (400, "{}", Fault.INVALID),
        (204, "", None),
        (200, '{"data": {}}', None),
        (200, '{"errors": []}', None),
        (200, '{"errors": [{"message": "what is this"}]}', Fault.OTHER),
        (200, '{"errors": "nonsense"}', Fault.OTHER),
    ],
)
def test_fault_by_status_and_form(status: int, body: str, fault: Fault | None) -> None:
    assert understand(Reply(status, body)).fault is fault


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault.NO_CAPACITY, RefusalCode.OFFER_GONE),
        (Fault.HOST_FULL, RefusalCode.OFFER_GONE),
        (Fault.WRONG_RESUME, RefusalCode.INVALID),
        (Fault.NO_CREDIT, RefusalCode.OUT_OF_CREDIT),
        (Fault.NO_RIGHTS, RefusalCode.NO_RIGHTS),
        (Fault.NOT_FOUND, RefusalCode.NOT_FOUND),
        (Fault.RATE_LIMITED, RefusalCode.RATE_LIMITED),
        (Fault.INVALID, RefusalCode.INVALID),
        (Fault.TRANSIENT, None),
        (Fault.OTHER, None),
        (Fault.WITHDRAWN, None),
    ],
)
def test_every_fault_has_its_outcome(fault: Fault, code: RefusalCode | None) -> None:
    assert outcomes.CODES.get(fault) is code


def test_a_retry_time_is_handed_on() -> None:
    refused = outcomes.judge_change(understand(Reply(429, "{}", "12")))
    assert refused == Refused(RefusalCode.RATE_LIMITED, "HTTP 429", None, 12.0)
    assert understand(Reply(429, "{}", "soon")).retry_after_s is None


def test_a_spot_pod_that_was_rented() -> None:
    assert outcomes.spot_rented(answer("graphql/podRentInterruptable.response"), SPOT) == Done(
        Created("fkjbybgpwuvmhk")
    )
    documented = answer("graphql/podRentInterruptable.docs_response")
    assert outcomes.spot_rented(documented, SPOT) == Done(Created("fkjbybgpwuvmhk"))


def test_a_pod_beside_an_error_was_rented_all_the_same() -> None:
    body = {"errors": [{"message": "machine timed out"}], "data": {SPOT: {"id": "abc123"}}}
    assert outcomes.spot_rented(understand(Reply(200, json.dumps(body))), SPOT) == Done(Created("abc123"))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (answer("graphql/error_no_capacity_spot"), RefusalCode.OFFER_GONE),
        (answer("graphql/error_spend_limit"), RefusalCode.OUT_OF_CREDIT),
        (answer("graphql/error_spot_removed_http400", 400), RefusalCode.INVALID),
        (graphql_error("Your bid of 0.01 is not enough"), RefusalCode.OFFER_GONE),
        (graphql_error("Unauthorized"), RefusalCode.NO_RIGHTS),
        (understand(Reply(200, json.dumps({"data": {SPOT: None}}))), RefusalCode.OFFER_GONE),
        (understand(Reply(429, "")), RefusalCode.RATE_LIMITED),
    ],
)
def test_spot_rentals_refused(given: Answer, code: RefusalCode) -> None:
    outcome = outcomes.spot_rented(given, SPOT)
    assert isinstance(outcome, Refused)
    assert outcome.code is code


@pytest.mark.parametrize(
    "given",
    [
        answer("graphql/error_internal"),
        understand(Reply(200, CLOUDFLARE)),
        understand(Reply(502, CLOUDFLARE)),
        understand(Reply(200, "{}")),
        understand(Reply(200, '{"data": null}')),
        understand(Reply(200, '{"data": {"podRentInterruptable": {}}}')),
        understand(Reply(200, '{"data": {"podRentInterruptable": {"id": "a\\"b"}}}')),
    ],
)
def test_spot_rentals_of_which_nothing_is_known(given: Answer) -> None:
    assert isinstance(outcomes.spot_rented(given, SPOT), Unknown)


def test_an_unknown_error_is_a_refusal_on_spot_only() -> None:
    unknown = graphql_error("what is this", operation="podFindAndDeployOnDemand")
    assert isinstance(outcomes.judge_rental(unknown, "podFindAndDeployOnDemand"), Unknown)
    null = answer("graphql/error_no_capacity_null_shape")
    assert outcomes.judge_rental(null, "podFindAndDeployOnDemand") == Refused(
        RefusalCode.OFFER_GONE, "the market gave no pod and no reason"
    )


def test_rentals_by_rest() -> None:
    assert outcomes.judge_rest_rental(answer("rest_v2/pod_provisioning", 201)) == Done(Created("7h9k2m4n6p"))
    assert isinstance(outcomes.judge_rest_rental(understand(Reply(201, ""))), Unknown)
    assert isinstance(outcomes.judge_rest_rental(understand(Reply(201, "{}"))), Unknown)
    assert isinstance(outcomes.judge_rest_rental(understand(Reply(500, "{}"))), Unknown)
    expected = {
        ("error_400_capacity", 400): RefusalCode.OFFER_GONE,
        ("error_401", 401): RefusalCode.NO_RIGHTS,
        ("error_402_balance", 402): RefusalCode.OUT_OF_CREDIT,
        ("error_409_action", 409): RefusalCode.INVALID,
        ("error_422", 422): RefusalCode.INVALID,
    }
    for (sample, status), code in expected.items():
        outcome = outcomes.judge_rest_rental(answer(f"rest_v2/{sample}", status))
        assert isinstance(outcome, Refused)
        assert outcome.code is code
    for status in (404, 410):
        with pytest.raises(Withdrawn):
            outcomes.judge_rest_rental(understand(Reply(status, "{}")))


def test_changes() -> None:
    assert outcomes.judge_change(answer("graphql/podBidResume"), "podBidResume") == Done(None)
    assert outcomes.judge_change(understand(Reply(204, ""))) == Done(None)
    expected = {
        "error_resume_no_free_gpus": ("podBidResume", RefusalCode.OFFER_GONE),
        "error_resume_spot_as_ondemand": ("podResume", RefusalCode.INVALID),
        "error_balance_resume": ("podResume", RefusalCode.OUT_OF_CREDIT),
    }
    for sample, (operation, code) in expected.items():
        outcome = outcomes.judge_change(answer(f"graphql/{sample}"), operation)
        assert isinstance(outcome, Refused)
        assert outcome.code is code
    assert isinstance(outcomes.judge_change(answer("graphql/error_internal"), "podResume"), Unknown)
    nothing = understand(Reply(200, '{"data": {"podResume": null}}'))
    assert isinstance(outcomes.judge_change(nothing, "podResume"), Unknown)
    assert isinstance(outcomes.judge_change(graphql_error("what is this"), SPOT), Refused)
    with pytest.raises(Withdrawn):
        outcomes.judge_change(understand(Reply(410, "{}")), "podResume")


def test_a_pod_that_is_not_there_is_destroyed() -> None:
    assert outcomes.judge_destroy(understand(Reply(204, ""))) == Done(None)
    assert outcomes.judge_destroy(answer("rest_v2/error_404", 404)) == Done(None)
    assert outcomes.judge_destroy(answer("graphql/error_terminate_not_found")) == Done(None)
    assert isinstance(outcomes.judge_destroy(understand(Reply(404, CLOUDFLARE))), Unknown)
    assert isinstance(outcomes.judge_destroy(understand(Reply(403, "{}"))), Refused)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, "{}", RefusalCode.NO_RIGHTS),
        (200, text("graphql/error_unauthorized_200"), RefusalCode.NO_RIGHTS),
        (429, "{}", RefusalCode.RATE_LIMITED),
        (500, "{}", None),
        (200, CLOUDFLARE, None),
        (204, "", None),
    ],
)
def test_reads_that_fail(status: int, body: str, code: RefusalCode | None) -> None:
    with pytest.raises(MarketUnknown) as raised:
        outcomes.read(understand(Reply(status, body)))
    assert raised.value.code is code


def test_a_read_from_what_is_withdrawn() -> None:
    with pytest.raises(Withdrawn):
        outcomes.read(understand(Reply(410, "")))


@pytest.mark.parametrize(
    ("message", "fault"),
    [("pod not found to terminate", Fault.NOT_FOUND), ("Unauthorized", Fault.NO_RIGHTS), ("hm", None)],
)
def test_texts_alone(message: str, fault: Fault | None) -> None:
    assert fault_in_text(message) is fault


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["errors", "data", "message"]), inner),
    max_leaves=15,
)


@given(st.integers(100, 599), st.one_of(st.text(max_size=200), json_values.map(lambda value: json.dumps(value))))
def test_any_reply_at_all_has_an_outcome(status: int, body: str) -> None:
    given_answer = understand(Reply(status, body, body))
    assert len(given_answer.message) <= MESSAGE_LENGTH
    assert given_answer.fault is None or given_answer.fault in Fault
    for judge in (
        lambda: outcomes.spot_rented(given_answer, SPOT),
        lambda: outcomes.judge_rest_rental(given_answer),
        lambda: outcomes.judge_change(given_answer, SPOT),
        lambda: outcomes.judge_destroy(given_answer),
        lambda: outcomes.read(given_answer),
    ):
        try:
            judge()
        except MarketUnknown:
            continue
