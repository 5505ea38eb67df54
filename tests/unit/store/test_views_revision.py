"""A ledger that exists has the views of its revision: other views need another revision, which may be empty."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from autopilot.store.schema import REVISION
from autopilot.store.views import VIEWS

SINCE = "0033"
DIGEST = "cc714663c77f6c625296e4315cb13fe6f0fcc6ad6479a0c3afa83245cc44bc3b"
"""Of the views that each ledger of that revision has."""


def test_other_views_come_with_a_revision() -> None:
    digest = hashlib.sha256(json.dumps(VIEWS).encode()).hexdigest()
    assert digest == DIGEST, f"add a revision in migrations/versions, then write it and {digest} here"
    assert SINCE <= REVISION
    assert list((Path(__file__).parents[3] / "migrations/versions").glob(f"{SINCE}_*.py"))
