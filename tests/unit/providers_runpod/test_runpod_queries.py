"""What we send must fit the market's schema."""

from __future__ import annotations

from decimal import Decimal
from importlib import resources

import pytest
from graphql import build_schema, parse, validate
from graphql.execution.values import get_variable_values
from graphql.language import OperationDefinitionNode

from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import CreateRequest
from autopilot.providers.runpod import create, queries
from autopilot.providers.runpod.config import parse_settings

SCHEMA = build_schema(resources.files("autopilot_lab.sandbox.runpod").joinpath("schema.graphql").read_text())
DOCUMENTS = [
    value
    for name, value in vars(queries).items()
    if name.isupper() and not name.startswith("_") and not name.endswith("_OPERATION")
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_document_fits_the_schema(document: str) -> None:
    assert validate(SCHEMA, parse(document)) == []


@pytest.mark.parametrize(
    ("document", "capacity_type"),
    [(queries.RENT_SPOT, CapacityType.SPOT), (queries.RENT_ON_DEMAND, CapacityType.ON_DEMAND)],
)
def test_inputs_of_rentals_fit_the_schema(document: str, capacity_type: CapacityType) -> None:
    request = CreateRequest("l", "G/SECURE/2", "G/SECURE/-", capacity_type, Decimal(1), "i", Decimal(40), {}, "true")
    wish = create.graphql_input(create.pod_request(request, parse_settings({"api_key": "k"})))
    (operation,) = parse(document).definitions
    assert isinstance(operation, OperationDefinitionNode)
    coerced = get_variable_values(SCHEMA, operation.variable_definitions, {"input": wish})
    assert isinstance(coerced, dict), coerced
