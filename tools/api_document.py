"""``docs/reference/openapi.json``: written by ``tools.references``, unless the API breaks a promise that it made there.

A client of version 1 goes on to work: nothing that it may send is refused, nothing that it reads is gone or of another
kind. New calls, new fields of answers and new fields that may be left out are no break.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PAGE = Path(__file__).parents[1] / "docs/reference/openapi.json"


def as_text(document: Json) -> str:
    """Without the program's version, which is not the API's."""
    info = {key: value for key, value in document["info"].items() if key != "version"}
    return json.dumps(document | {"info": info}, indent=1, sort_keys=True) + "\n"


def find_breaks(old: Json, new: Json) -> list[str]:
    """What a client of ``old`` would suffer from ``new``, one line each."""
    breaks: list[str] = []
    for path, methods in old["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            if (now := new["paths"].get(path, {}).get(method)) is None:
                breaks.append(f"{where}: there is no such call any more")
                continue
            breaks += [f"{where}: {line}" for line in _of_operation(operation, now, old, new)]
    return breaks


def _of_operation(old: Json, new: Json, old_doc: Json, new_doc: Json) -> Iterator[str]:
    yield from _of_parameters(old, new, old_doc, new_doc)
    yield from _of_body(old, new, old_doc, new_doc)
    yield from _of_answers(old, new, old_doc, new_doc)


def _of_parameters(old: Json, new: Json, old_doc: Json, new_doc: Json) -> Iterator[str]:
    before = {(each["in"], each["name"]): each for each in old.get("parameters", ())}
    after = {(each["in"], each["name"]): each for each in new.get("parameters", ())}
    for key, each in before.items():
        if key not in after:
            yield f"{key[1]} cannot be sent any more"
        else:
            yield from _narrower(each["schema"], after[key]["schema"], old_doc, new_doc, key[1])
    yield from (f"{key[1]} must be sent now" for key, each in after.items() if each["required"] and key not in before)


def _of_body(old: Json, new: Json, old_doc: Json, new_doc: Json) -> Iterator[str]:
    if (asked := new.get("requestBody")) is None:
        return
    was = old.get("requestBody", {"required": False, "content": {}})
    if asked["required"] and not was["required"]:
        yield "a body must be sent now"
    for kind, each in was["content"].items():
        if "schema" in each:
            yield from _narrower(each["schema"], asked["content"][kind]["schema"], old_doc, new_doc, "body")


def _of_answers(old: Json, new: Json, old_doc: Json, new_doc: Json) -> Iterator[str]:
    for status, answer in old["responses"].items():
        if status not in new["responses"]:
            yield f"it does not answer {status} any more"
            continue
        for kind, each in answer.get("content", {}).items():
            if "schema" in each:
                now = new["responses"][status]["content"].get(kind, {}).get("schema", {})
                yield from _wider(each["schema"], now, old_doc, new_doc, status)


def _narrower(old: Json, new: Json, old_doc: Json, new_doc: Json, where: str) -> Iterator[str]:
    """What could be sent and cannot any more."""
    yield from _kinds_lost(_kinds(old, old_doc), _kinds(new, new_doc), where, "can be sent no more as")
    old_fields, new_fields = _fields(old, old_doc), _fields(new, new_doc)
    for name in old_fields:
        if name not in new_fields:
            yield f"{where}.{name} cannot be sent any more"
        else:
            yield from _narrower(old_fields[name], new_fields[name], old_doc, new_doc, f"{where}.{name}")
    for name in sorted(_required(new, new_doc) - _required(old, old_doc)):
        yield f"{where}.{name} must be sent now"


def _wider(old: Json, new: Json, old_doc: Json, new_doc: Json, where: str) -> Iterator[str]:
    """What an answer held and does not, or what it holds now that it could not hold."""
    yield from _kinds_lost(_kinds(new, new_doc), _kinds(old, old_doc), where, "can now be")
    old_fields, new_fields = _fields(old, old_doc), _fields(new, new_doc)
    for name in old_fields:
        if name not in new_fields:
            yield f"{where}.{name} is gone"
        else:
            yield from _wider(old_fields[name], new_fields[name], old_doc, new_doc, f"{where}.{name}")
    for name in sorted((_required(old, old_doc) & new_fields.keys()) - _required(new, new_doc)):
        yield f"{where}.{name} may now be missing"


def _kinds_lost(wanted: set[str], there: set[str], where: str, words: str) -> Iterator[str]:
    """A type without bounds is there for all that it can hold."""
    lost = (kind for kind in sorted(wanted - there) if kind.partition(",")[0] not in there)
    yield from (f"{where} {words} {kind}" for kind in lost if "any" not in there)


def _resolve(schema: Json, document: Json) -> Json:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _choices(schema: Json, document: Json) -> list[Json]:
    schema = _resolve(schema, document)
    return (
        [choice for each in schema["anyOf"] for choice in _choices(each, document)] if "anyOf" in schema else [schema]
    )


def _kinds(schema: Json, document: Json) -> set[str]:
    """Types, with what bounds them: words of a list of words, the form of a text, what an array holds."""
    kinds: set[str] = set()
    for each in _choices(schema, document):
        if "enum" in each or "const" in each:
            kinds |= {f"the word {word!r}" for word in each.get("enum", [each.get("const")])}
        elif each.get("type") == "array":
            kinds |= {f"a list of: {kind}" for kind in _kinds(each.get("items", {}), document)}
        else:
            bounds = [f"{key} {each[key]}" for key in ("format", "pattern", "minimum", "maximum") if key in each]
            kinds.add(", ".join((each.get("type", "any"), *bounds)))
    return kinds


def _fields(schema: Json, document: Json) -> Json:
    """Of the object that it is, or that its list holds; of a choice of several, all of theirs."""
    found: Json = {}
    for each in _choices(schema, document):
        if each.get("type") == "array":
            found |= {f"[].{name}": field for name, field in _fields(each.get("items", {}), document).items()}
        elif isinstance(each.get("additionalProperties"), dict):
            found["*"] = each["additionalProperties"]
        else:
            found |= each.get("properties", {})
    return found


def _required(schema: Json, document: Json) -> set[str]:
    names: set[str] = set()
    for each in _choices(schema, document):
        if each.get("type") == "array":
            names |= {f"[].{name}" for name in _required(each.get("items", {}), document)}
        names |= set(each.get("required", ()))
    return names
