"""The GraphQL schema of each mode, and the validation of documents against it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLError,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLSyntaxError,
    OperationDefinitionNode,
    build_schema,
    parse,
    specified_rules,
    validate,
)
from graphql.validation import NoSchemaIntrospectionCustomRule

from autopilot_lab.sandbox.runpod.rows import Json, iso

_TEXT = Path(__file__).with_name("schema.graphql").read_text()
_SPOT = re.compile(r"^  (podRentInterruptable|podBidResume)\(.*\n", re.MULTILINE)
_SPOT_INPUTS = re.compile(r"^input (PodRentInterruptableInput|PodBidResumeInput) \{[^}]*\}.*\n", re.MULTILINE)
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class Document:
    """A valid document with one operation to execute. ``fields``: the names of its root fields, in order."""

    node: DocumentNode
    fields: tuple[str, ...]


class Malformed(Exception):
    """The document does not parse or does not fit the schema. ``body`` is the answer, sent with HTTP 400."""

    def __init__(self, errors: list[GraphQLError], code: str) -> None:
        super().__init__(str(errors[0]))
        self.body: Json = {"errors": [_error(error, code) for error in errors]}


@cache
def schema(*, with_spot: bool = True) -> GraphQLSchema:
    text = _TEXT if with_spot else _SPOT_INPUTS.sub("", _SPOT.sub("", _TEXT))
    built = build_schema(text)
    moment, void = built.type_map["DateTime"], built.type_map["Void"]
    assert isinstance(moment, GraphQLScalarType)
    assert isinstance(void, GraphQLScalarType)
    moment.serialize = _show_instant  # type: ignore[method-assign]
    moment.parse_value = _read_instant  # type: ignore[method-assign]
    void.serialize = lambda value: None  # type: ignore[method-assign]
    return built


def read(query: str, schema: GraphQLSchema, operation_name: str | None = None) -> Document:
    """Raises ``Malformed``."""
    try:
        node = parse(query)
    except GraphQLSyntaxError as error:
        raise Malformed([error], "GRAPHQL_PARSE_FAILED") from None
    if errors := validate(schema, node, [*specified_rules, NoSchemaIntrospectionCustomRule]):
        raise Malformed(errors, "GRAPHQL_VALIDATION_FAILED")
    operations = [each for each in node.definitions if isinstance(each, OperationDefinitionNode)]
    chosen = [
        each for each in operations if operation_name is None or (each.name and each.name.value == operation_name)
    ]
    if len(chosen) != 1:
        raise Malformed([GraphQLError("Must provide the name of one operation.")], "BAD_REQUEST")
    selections = chosen[0].selection_set.selections
    return Document(node, tuple(each.name.value for each in selections if isinstance(each, FieldNode)))


def _error(error: GraphQLError, code: str) -> Json:
    """With double quotes, as the reference implementation in JavaScript writes them."""
    where = [{"line": place.line, "column": place.column} for place in error.locations or []]
    message = _QUOTED.sub(r'"\1"', error.message)
    return {"message": message, "locations": where, "extensions": {"code": code}}


def _show_instant(value: object) -> str:
    assert isinstance(value, datetime)
    return iso(value)


def _read_instant(value: object) -> datetime:
    try:
        instant = datetime.fromisoformat(str(value))
    except ValueError:
        raise GraphQLError(f"DateTime cannot represent {value!r}") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
