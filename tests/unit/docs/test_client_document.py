"""The client is held to the OpenAPI document: each request is one of it, with its body, its query and its answer."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from autopilot.api.operations import OPERATIONS
from autopilot.client import asynchronous, synchronous
from autopilot.client.asynchronous import AsyncClient, AsyncJob
from autopilot.client.synchronous import Client, SubmittedJob


def requests() -> list[tuple[str, str | None, dict[str, ast.expr], ast.AsyncFunctionDef]]:
    """(call, name of the answer's model, keywords, the method) of each request that the client makes."""
    made = []
    tree = ast.parse(Path(asynchronous.__file__).read_text())
    for method in (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)):
        for node in ast.walk(method):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("ask", "stream")
            ):
                call = node.args[0]
                assert isinstance(call, ast.Constant), "the call is written out"
                answer = ast.unparse(node.args[1]) if node.func.attr == "ask" else None
                made.append((str(call.value), answer, {key.arg or "": key.value for key in node.keywords}, method))
    return made


def model_of(name: str) -> object:
    room, _, model = name.rpartition(".")
    return getattr(vars(asynchronous)[room] if room else asynchronous, model)


def test_each_request_is_one_of_the_document() -> None:
    assert len(requests()) > 15
    for call, answer, keywords, _ in requests():
        operation = OPERATIONS[call]
        if answer is not None:
            assert set(operation.answers.values()) == {model_of(answer)}, call
        assert ("body" in keywords) == (operation.body is not None), call
        assert operation.acts_once == ("acts_once" in keywords), call


def test_queries_and_bodies_are_the_document_s() -> None:
    """Each is made in the method that sends it, by the model that the document names for the call."""
    for call, _, keywords, method in requests():
        made = {ast.unparse(node.func) for node in ast.walk(method) if isinstance(node, ast.Call)}
        made = {each.removesuffix(".model_validate").rpartition(".")[2] for each in made}
        for key, model in (("body", OPERATIONS[call].body), ("query", OPERATIONS[call].query)):
            if key in keywords:
                assert model is not None
                assert model.__name__ in made, (call, model)


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    for one, other in ((AsyncClient, Client), (AsyncJob, SubmittedJob)):
        names = {name for name in vars(one) if not name.startswith("_")}
        assert names == {name for name in vars(other) if not name.startswith("_")}
        for name in names:
            first, second = getattr(one, name), getattr(other, name)
            if callable(first):
                assert list(inspect.signature(first).parameters) == list(inspect.signature(second).parameters), name
    assert synchronous.Client.__doc__
