"""Reason codes, events, control API and sandbox operations: each is documented, and nothing else is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from autopilot.api import problem_documents, problems
from autopilot.api.access import RULES
from autopilot.api.app import Api
from autopilot.books.spend import SPEND_KEYS
from autopilot.clock import ManualClock
from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from autopilot.engine import event_log, firings, invoices, predecessors
from autopilot.listener.api_port import OF_LISTENER
from autopilot_lab.sandbox.__main__ import _parser
from autopilot_lab.sandbox.faults import FAMILIES, KINDS
from autopilot_lab.sandbox.mithril import injected_faults as mithril_faults
from autopilot_lab.sandbox.nebius import injected_faults as nebius_faults
from autopilot_lab.sandbox.runpod import injected_faults
from autopilot_lab.sandbox.runpod.exchange import Mode
from autopilot_lab.sandbox.server import Sandbox, SandboxConfig

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


def first_cells(page: str, section: str = "") -> list[str]:
    """What stands in code quotes in the first column of the page's tables, in order."""
    text = (REFERENCE / page).read_text()
    if section:
        text = re.split(r"^## ", text.split(f"## {section}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`[^|]+?) \|", text, re.MULTILINE)
    return [quoted for row in rows for quoted in re.findall(r"`([^`]+)`", row)]


def test_every_reason_is_documented_once() -> None:
    assert sorted(first_cells("reasons.md")) == sorted(Reason)


def _source_of_events() -> str:
    source = "".join(inspect.getsource(module) for module in (event_log, firings, invoices, predecessors))
    return re.sub(r"\blog\.\w+\(.*", "", source)  # what the daemon's log is told is no event


def test_every_event_is_documented_once() -> None:
    source = _source_of_events()
    named = {name for name in re.findall(r'"([a-z]+\.[a-z_]+)"', source) if not name.startswith("job.")}
    jobs = {"job.submitted", "job.changed", "job.predecessors_ended", *(f"job.{status}" for status in JobStatus)}
    assert sorted(first_cells("events.md")) == sorted(named | jobs)


def test_the_fields_of_the_events_are_the_code_s() -> None:
    """Fields are those that the code of events writes; a field that no event has is not documented."""
    text = (REFERENCE / "events.md").read_text()
    documented = {
        field.strip() for row in re.findall(r"^\| `[^|]+\| ([^|]*) \|", text, re.MULTILINE) for field in row.split(",")
    }
    written = set(re.findall(r'\("([a-z_]+)", ', _source_of_events())) | {"name"}
    assert documented - {""} == written


def test_every_route_of_the_control_api_is_documented() -> None:
    nothing: Any = None
    app = Api(*[nothing] * 10).app()  # routes are made without asking anything of them
    routes = {f"{route.method} {route.resource.canonical}" for route in app.router.routes() if route.resource}
    routes = {route for route in routes if not route.startswith("HEAD ")}
    assert sorted(cell for cell in first_cells("api.md") if "/" in cell) == sorted(routes)
    text = (REFERENCE / "api.md").read_text()
    assert all(f"`{key}`" in text for key in SPEND_KEYS)


@pytest.fixture
async def sandbox_routes(tmp_path: Path) -> set[str]:
    sandbox = Sandbox(SandboxConfig(tmp_path, real_processes=False, nebius_port=0), ManualClock())
    await sandbox.start()
    try:
        runner = sandbox._runner
        assert runner is not None
        app: web.Application = runner.app
        return {f"{route.method} {route.resource.canonical}" for route in app.router.routes() if route.resource}
    finally:
        await sandbox.stop()


def test_every_reason_of_an_error_is_documented_with_its_status() -> None:
    text = (REFERENCE / "api.md").read_text()
    told = set(re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE))
    known = {(str(kind.status), kind.reason) for kind in problems.KINDS}
    known |= {(str(status), reason) for status, reason in problem_documents.OF_HTTP.items()}
    known |= {(str(status), reason) for status, reason in OF_LISTENER.items()}
    assert told == known | {("400", "bad_request"), ("499", "caller_gone"), ("500", "defect")}


def test_the_table_of_who_may_make_a_call_is_the_code_s() -> None:
    text = (REFERENCE.parent / "how-to" / "give-access.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+ /.*?)` \| `(\w+)` \| `(\w+)` \|$", text, re.MULTILINE)
    assert rows == [(call, rule.scope, rule.others) for call, rule in RULES.items()]


def test_every_operation_of_the_sandbox_is_documented(sandbox_routes: set[str]) -> None:
    operations = {route for route in sandbox_routes if "/_emu/" in route and not route.startswith("HEAD ")}
    cells = first_cells("sandbox.md", "Control")
    assert any("/_emu/runpod/" in operation for operation in operations)
    assert sorted(cell for cell in cells if "/" in cell) == sorted(operations)
    assert [cell for cell in cells if "/" not in cell] == list(Mode)


def test_every_option_of_the_sandbox_is_documented_with_its_default() -> None:
    text = (REFERENCE / "sandbox.md").read_text()
    shown = re.findall(r"^\| `(--[a-z-]+)` \| (?:`(.+?)` )?\| ", text, re.MULTILINE)
    options = [action for action in _parser()._actions if action.dest != "help"]
    assert shown == [
        (each.option_strings[0], "" if each.default is None or each.default is False else str(each.default))
        for each in options
    ]


def test_every_fault_of_the_sandbox_is_documented() -> None:
    assert sorted(first_cells("sandbox.md", "Faults")) == sorted(KINDS)
    text = (REFERENCE / "sandbox.md").read_text()
    assert all(f"`{family}`" in text for family in FAMILIES)


def test_every_fault_of_mithril_is_documented() -> None:
    assert sorted(first_cells("sandbox.md", "Faults of Mithril")) == sorted(mithril_faults.KINDS)
    text = (REFERENCE / "sandbox.md").read_text()
    assert all(f"`{family}`" in text for family in mithril_faults.FAMILIES)


def test_every_fault_of_nebius_is_documented() -> None:
    cells = first_cells("sandbox.md", "Faults of Nebius")
    assert sorted(cells) == sorted(nebius_faults.KINDS)
    text = (REFERENCE / "sandbox.md").read_text()
    assert all(f"`{family}`" in text for family in nebius_faults.FAMILIES)


def test_every_fault_of_runpod_is_documented() -> None:
    assert sorted(first_cells("sandbox.md", "Faults of RunPod")) == sorted(injected_faults.KINDS)
    text = (REFERENCE / "sandbox.md").read_text()
    assert all(f"`{family}`" in text for family in injected_faults.FAMILIES)
