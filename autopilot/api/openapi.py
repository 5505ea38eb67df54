"""The OpenAPI document of the API, made of the table of operations, the rules of access and the models."""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import core_schema

from autopilot import __version__
from autopilot.answers.models.base import Problem
from autopilot.answers.scalars import DECIMAL
from autopilot.api.access import RULES
from autopilot.api.once import HEADER, LONGEST_KEY
from autopilot.api.operations import OPERATIONS, Operation
from autopilot.api.problem_documents import PROBLEM
from autopilot.api.streams import STREAM

Json = dict[str, Any]

_REF = "#/components/schemas/{model}"
_IN_PATH = {
    "ref": {"type": "string", "description": "an id, a prefix of one, or a name"},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "number": {"type": "integer", "minimum": 1, "maximum": 999_999},
    "market": {"type": "string"},
    "machine": {"type": "string", "description": "its id on that market"},
    "plan": {"type": "string"},
    "schedule": {"type": "string", "description": "an id or a name"},
    "name": {"type": "string"},
}
_KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "the same request with the same key takes effect once",
    "schema": {"type": "string", "pattern": f"^[ -~]{{0,{LONGEST_KEY}}}$"},
}
_LAST_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "the last event received; overrides after",
    "schema": {"type": "string"},
}
_ABOUT = (
    "Jobs on rented GPUs. Money is a decimal string in US dollars, an instant is ISO 8601 in UTC, a duration is in"
    " seconds. Errors are problem documents (RFC 9457)."
)


class _Schemas(GenerateJsonSchema):
    """A decimal is an amount of money unless its type says otherwise."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> Json:
        return DECIMAL | {"description": "US dollars, or US dollars an hour for a rate"}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> Json:
        """With what is said of it and of inherited members: pydantic takes no more than what its own lines say."""
        made, kind = super().dataclass_schema(schema), schema["cls"]
        for base in filter(is_dataclass, reversed(kind.__mro__[1:])):
            for name, member in TypeAdapter(base).json_schema(schema_generator=_Schemas)["properties"].items():
                if "description" in member and name not in inspect.get_annotations(kind):
                    made["properties"][name]["description"] = member["description"]
        said = inspect.cleandoc(vars(kind)["__doc__"] or "")
        return made if said.startswith(f"{kind.__name__}(") else made | {"description": said}


@cache
def openapi() -> Json:
    """The document, by OpenAPI 3.1. It is the same at each call: do not change it."""
    models: set[tuple[type[Any], JsonSchemaMode]] = {(Problem, "serialization")}
    for operation in OPERATIONS.values():
        models |= {(answer, "serialization") for answer in operation.answers.values()}
        models |= {(body, "validation") for body in (operation.body,) if body}
    listed = sorted(models, key=lambda pair: pair[0].__name__)
    adapters: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]]
    adapters = [(model, mode, TypeAdapter(model)) for model, mode in listed]
    refs, schemas = TypeAdapter.json_schemas(adapters, ref_template=_REF, schema_generator=_Schemas)
    paths: Json = {}
    for call, operation in OPERATIONS.items():
        method, _, path = call.partition(" ")
        paths.setdefault(path, {})[method.lower()] = _describe(call, operation, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "autopilot", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "needed over TCP, not on the socket"}
            },
        },
    }


def _describe(call: str, operation: Operation, refs: Any) -> Json:
    method, _, path = call.partition(" ")
    rule = RULES[call]
    made: Json = {
        "operationId": _name(method, path),
        "summary": operation.summary,
        "x-scope": rule.scope,
        "x-others": rule.others,
    }
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": _IN_PATH[name]}
        for name in re.findall(r"{(\w+)}", path)
    ]
    if operation.query is not None:
        schema = operation.query.model_json_schema()
        parameters += [
            {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": _bare(each)}
            for name, each in schema["properties"].items()
        ]
    parameters += [_KEY] if operation.acts_once else []
    parameters += [_LAST_ID] if operation.streams else []
    if parameters:
        made["parameters"] = parameters
    if operation.is_upload:
        made["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif operation.body is not None:
        content = {"application/json": {"schema": refs[operation.body, "validation"]}}
        made["requestBody"] = {"required": not operation.may_be_bare, "content": content}
    made["responses"] = _answers(operation, refs)
    return made


def _answers(operation: Operation, refs: Any) -> Json:
    made: Json = {}
    for status, answer in sorted(operation.answers.items()):
        content: Json = {operation.media_type: {"schema": refs[answer, "serialization"]}}
        if operation.streams:
            content[STREAM] = {}
        made[str(status)] = {"description": "Done" if status != 202 else "It takes effect, and will be recorded"}
        made[str(status)]["content"] = content
    if not operation.answers:
        made["200"] = {"description": "Done", "content": {operation.media_type: {}}}
    content = {PROBLEM: {"schema": refs[Problem, "serialization"]}}
    made["4XX"] = {"description": "Refused: the caller must change the request", "content": content}
    made["5XX"] = {"description": "Temporarily unavailable", "content": content}
    return made


def _bare(schema: Json) -> Json:
    """The schema of an optional parameter: it is never null in a URL."""
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "title", "default")}
    if "default" in schema and schema["default"] is not None:
        kept["default"] = schema["default"]
    return (choices[0] if choices else {}) | kept


def _name(method: str, path: str) -> str:
    words = [word.strip("{}").removesuffix(".json") for word in path.removeprefix("/v1").split("/") if word]
    return "_".join((method.lower(), *words))
