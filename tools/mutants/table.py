"""What is mutated, and which tests stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

SEED = 27
LOGIC_SHARE = 0.12
"""Of the mutants that change a comparison, a number, an operator or a branch."""
DROP_SHARE = 0.019
"""Of those that drop or blank a value. There are three times as many, and most end in an error at once."""

_POLICY = ("tests/unit/policy",)
_MONEY = ("tests/unit/domain", "tests/unit/engine", "tests/unit/api", "tests/property")
_AGENT = ("tests/unit/agent", "tests/integration/agent/test_agent_permit.py")
_CHECKPOINTS = ("tests/unit/agent", "tests/unit/blobs", "tests/unit/engine", "tests/unit/cli/test_pull.py")


@dataclass(frozen=True, slots=True)
class Module:
    path: str
    own: tuple[str, ...]
    """Its own tests, at most 20 s."""
    wider: tuple[str, ...]
    """Unit and property tests of its room, at most 90 s."""
    scopes: tuple[str, ...] = ()
    """The functions and classes that are meant; empty: all."""
    is_simulated: bool = True
    """Whether the simulator runs it as shipped."""

    def means(self, scope: str) -> bool:
        return not self.scopes or any(scope == one or scope.startswith(f"{one}.") for one in self.scopes)


_GUARD = "tests/unit/policy/test_guard.py"
_BUDGET = "tests/unit/policy/test_budget.py"
_ACCRUE = "tests/unit/engine/test_accrue.py"
_INVOICES = ("tests/unit/engine/test_invoices.py", "tests/unit/engine/test_invoice_import.py")
_MODEL = "tests/property/test_ledger_model.py"
_SPEND = "tests/unit/domain/test_spend_report.py"
_ANSWERS = "tests/unit/books/test_money_answers.py"
_MACHINE = ("tests/unit/agent/test_agent_machine.py", "tests/unit/agent/test_agent_states.py")
_VERIFICATION = ("tests/unit/blobs/test_verification.py", "tests/unit/blobs/test_checkpoint_reads.py")
_INDEX = ("tests/unit/agent/test_agent_index.py", "tests/unit/agent/test_agent_snapshots.py")
_DOWNLOAD = ("tests/unit/agent/test_agent_download.py", "tests/unit/agent/test_agent_fetch.py")

_PERMIT_OF_THE_MACHINE = tuple(
    f"Machine.{name}"
    for name in (
        "__init__", "to_remember", "take_orders", "decide", "quit", "is_dirty", "is_surplus", "is_saved", "is_due",
        "_serve", "_go", "_quit", "_role", "_is_fenced", "_save_and_report", "_is_unreported",
    )
)  # fmt: skip

MODULES = (
    # guard
    Module("autopilot/policy/guard.py", (_GUARD, "tests/property/test_policy_properties.py"), (*_POLICY, *_MONEY)),
    Module("autopilot/domain/launches.py", (_GUARD, _ANSWERS), (*_POLICY, *_MONEY)),
    # accrue
    Module("autopilot/engine/accrue.py", (_ACCRUE, "tests/property/test_money_properties.py", _MODEL), _MONEY),
    Module("autopilot/engine/invoices.py", (*_INVOICES, _MODEL), _MONEY),
    Module("autopilot/domain/ledger.py", (_ACCRUE, *_INVOICES, "tests/unit/domain/test_reconciliation.py"), _MONEY),
    Module(
        "autopilot/domain/rounding.py",
        ("tests/unit/domain/test_rounding.py",),
        _MONEY,
        is_simulated=False,
    ),
    Module("autopilot/domain/reconciliation.py", ("tests/unit/domain/test_reconciliation.py",), _MONEY),
    # spend
    Module(
        "autopilot/domain/spend.py",
        (_SPEND, _ANSWERS),
        (*_MONEY, "tests/unit/cli/test_tables_add_up.py"),
        is_simulated=False,
    ),
    Module("autopilot/policy/budget.py", (_BUDGET, _GUARD, _ACCRUE), (*_POLICY, *_MONEY)),
    # permit
    Module(
        "autopilot/engine/engine.py",
        ("tests/integration/engine/test_engine_budget.py", "tests/integration/engine/test_engine_market_unknown.py"),
        (*_MONEY, "tests/integration/engine/test_engine_hanging_market.py"),
        ("Engine._renew_permits", "Engine._permit_ttl_s"),
    ),
    Module("autopilot/agent/shipped/machine.py", _MACHINE, _AGENT, _PERMIT_OF_THE_MACHINE),
    Module("autopilot/agent/shipped/states.py", _MACHINE, _AGENT, ("Life", "move")),
    # verification
    Module("autopilot/mailbox/checkpoints.py", _VERIFICATION, _CHECKPOINTS),
    Module(
        "autopilot/agent/unpack.py",
        (*_VERIFICATION, "tests/unit/cli/test_pull.py", "tests/property/test_code_packing.py"),
        _CHECKPOINTS,
        is_simulated=False,
    ),
    Module("autopilot/agent/shipped/tree.py", (*_INDEX, *_DOWNLOAD), _CHECKPOINTS, is_simulated=False),
    Module("autopilot/agent/shipped/chunks.py", (*_INDEX, *_DOWNLOAD), _CHECKPOINTS, is_simulated=False),
    Module("autopilot/agent/shipped/download.py", _DOWNLOAD, _CHECKPOINTS, is_simulated=False),
    # outcome
    Module(
        "autopilot/providers/vastai/outcomes.py",
        ("tests/unit/providers/test_vastai_outcomes.py",),
        ("tests/unit/providers", "tests/integration/wire/test_hostile_answers.py"),
    ),
    Module(
        "autopilot/providers/runpod/outcomes.py",
        ("tests/unit/providers_runpod/test_runpod_outcomes.py",),
        ("tests/unit/providers_runpod", "tests/integration/wire/test_hostile_answers.py"),
    ),
)

ROOMS = {
    "engine": (("tests/unit/engine",), ("tests/integration/engine",)),
    "store": (
        ("tests/contract/test_store_contract.py", "tests/unit/store"),
        ("tests/integration/store", "tests/migration"),
    ),
}
"""For ``--listed``: the tests of each file of a room, the quick ones first."""
