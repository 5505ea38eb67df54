"""What a pod runs, the schema in each mode, and times in RunPod's ways of writing."""

from datetime import UTC, datetime

import pytest
from graphql import GraphQLInputObjectType

from autopilot_lab.sandbox.runpod.containers import command
from autopilot_lab.sandbox.runpod.lifecycle import javascript_date
from autopilot_lab.sandbox.runpod.rows import iso
from autopilot_lab.sandbox.runpod.schema import schema


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("", ["sleep", "infinity"]),
        ("  ", ["sleep", "infinity"]),
        ("bash -c 'echo a; echo b'", ["bash", "-c", "echo a; echo b"]),
        ('{"cmd":["python x.py"],"entrypoint":["/bin/sh","-c"]}', ["/bin/sh", "-c", "python x.py"]),
        ('{"cmd":["python","x.py"]}', ["python", "x.py"]),
        ("{}", ["sleep", "infinity"]),
        ("{not json", ["{not", "json"]),
        ("bash -c 'unbalanced", ["bash", "-c", "'unbalanced"]),
    ],
)
def test_commands(args: str, words: list[str]) -> None:
    assert command(args) == words


def test_the_schema_without_spot_knows_neither_the_mutations_nor_their_inputs() -> None:
    full, reduced = schema(), schema(with_spot=False)
    gone = {"PodRentInterruptableInput", "PodBidResumeInput"}
    assert set(full.type_map) - set(reduced.type_map) == gone
    assert full.mutation_type is not None
    assert reduced.mutation_type is not None
    assert set(full.mutation_type.fields) - set(reduced.mutation_type.fields) == {
        "podRentInterruptable",
        "podBidResume",
    }
    assert isinstance(full.type_map["PodBidResumeInput"], GraphQLInputObjectType)


def test_times() -> None:
    moment = datetime(2024, 7, 12, 15, 14, 40, 123_456, tzinfo=UTC)
    assert javascript_date(moment) == "Fri Jul 12 2024 15:14:40 GMT+0000 (Coordinated Universal Time)"
    assert iso(moment) == "2024-07-12T15:14:40.123Z"
