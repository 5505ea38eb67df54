"""The OpenAPI document: it is the API's own, and it shows when a change would break its clients."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from autopilot.api.access import RULES
from autopilot.api.openapi import openapi
from autopilot.api.operations import OF_PAGE, OPERATIONS
from autopilot.config.job_changes import KEYS
from tools.api_document import PAGE, as_text, find_breaks

Json = dict[str, Any]


def test_nothing_breaks_for_clients_of_the_document() -> None:
    """A break on purpose is another version of the API, at addresses of its own."""
    assert find_breaks(json.loads(PAGE.read_text()), openapi()) == []


def test_the_document_in_the_docs_is_the_api_s() -> None:
    assert PAGE.read_text() == as_text(openapi()), "make docs rewrites it"


def test_every_call_is_described_and_names_what_it_takes() -> None:
    assert {*OPERATIONS, *OF_PAGE} == RULES.keys()
    assert not OPERATIONS.keys() & set(OF_PAGE)
    described = {f"{m.upper()} {path}" for path, methods in openapi()["paths"].items() for m in methods}
    assert described == OPERATIONS.keys()
    names = [each["operationId"] for methods in openapi()["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)


def test_what_can_be_changed_of_a_job_is_what_the_job_file_s_keys_say() -> None:
    assert set(openapi()["components"]["schemas"]["ChangeBody"]["properties"]) == {*KEYS, "min_probability", "plan"}


def schemas(document: Json) -> Json:
    found: Json = document["components"]["schemas"]
    return found


def drop_call(document: Json) -> None:
    del document["paths"]["/v1/jobs/{ref}"]["patch"]


def drop_field(document: Json) -> None:
    del schemas(document)["Lease"]["properties"]["bid"]


def make_null(document: Json) -> None:
    schemas(document)["Job"]["properties"]["name"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def make_optional(document: Json) -> None:
    schemas(document)["Job"]["required"].remove("status")


def change_kind(document: Json) -> None:
    schemas(document)["Job"]["properties"]["step"] = {"type": "string"}


def add_word(document: Json) -> None:
    schemas(document)["JobStatus"]["enum"].append("asleep")


def require_field(document: Json) -> None:
    schemas(document)["SubmitBody"]["required"].append("source")


def refuse_field(document: Json) -> None:
    del schemas(document)["SubmitBody"]["properties"]["again"]


def refuse_word(document: Json) -> None:
    schemas(document)["Scope"]["enum"].remove("operate")


def require_parameter(document: Json) -> None:
    parameters = document["paths"]["/v1/jobs"]["get"]["parameters"]
    parameters.append({"in": "query", "name": "page", "required": True, "schema": {"type": "string"}})


def drop_parameter(document: Json) -> None:
    document["paths"]["/v1/jobs"]["get"]["parameters"].clear()


def drop_status(document: Json) -> None:
    del document["paths"]["/v1/jobs"]["post"]["responses"]["201"]


def ask_for_body(document: Json) -> None:
    document["paths"]["/v1/jobs/{ref}/resume"]["post"]["requestBody"]["required"] = True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop_call, "PATCH /v1/jobs/{ref}: there is no such call"),
        (drop_field, "bid is gone"),
        (make_null, "name can now be null"),
        (make_optional, "status may now be missing"),
        (change_kind, "step can now be string"),
        (add_word, "can now be the word 'asleep'"),
        (require_field, "body.source must be sent now"),
        (refuse_field, "body.again cannot be sent any more"),
        (refuse_word, "body.scope can be sent no more as the word 'operate'"),
        (require_parameter, "page must be sent now"),
        (drop_parameter, "all cannot be sent any more"),
        (drop_status, "does not answer 201 any more"),
        (ask_for_body, "a body must be sent now"),
    ],
)
def test_a_break_is_found(change: Callable[[Json], None], said: str) -> None:
    changed = copy.deepcopy(openapi())
    change(changed)
    assert any(said in line for line in find_breaks(openapi(), changed)), find_breaks(openapi(), changed)


def add_call(document: Json) -> None:
    document["paths"]["/v1/more"] = {"get": {"responses": {}}}


def add_answer_field(document: Json) -> None:
    schemas(document)["Job"]["properties"]["more"] = {"type": "string"}


def add_body_field(document: Json) -> None:
    schemas(document)["SubmitBody"]["properties"]["more"] = {"type": "string"}


@pytest.mark.parametrize("change", [add_call, add_answer_field, add_body_field])
def test_additions_are_compatible(change: Callable[[Json], None]) -> None:
    changed = copy.deepcopy(openapi())
    change(changed)
    assert find_breaks(openapi(), changed) == []
