"""Revision 0006 renames what decisions say: options and numbers that have another name since."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from autopilot.store.database import open_store
from tests.migration.test_migrations_from_every_revision import a_ledger_of

NOTES = [
    ["way", [["way", "lower"], ["cost", "1.5"], ["rate", "0.3"], ["machine_id", "lower"]]],
    ["way", [["way", "stay"], ["cost", "1.6"]]],
]
VETOES = [["veto", [["action", "acquire"], ["because", "market_unknown"], ["lease_id", "l1"], ["unseen_s", 960]]]]


async def test_options_and_numbers_of_decisions_get_their_new_names(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    a_ledger_of("0005", str(path))
    with sqlite3.connect(path) as connection:
        job = connection.execute("SELECT id FROM jobs").fetchone()[0]
        values = {"id": "d1", "job_id": job, "at": 0, "actions": "[]"}
        values |= {"vetoes": json.dumps(VETOES), "notes": json.dumps(NOTES)}
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO decisions ({', '.join(values)}) VALUES ({marks})", (*values.values(),))
    await (await open_store(str(path))).close()
    with sqlite3.connect(path) as connection:
        vetoes, notes = connection.execute("SELECT vetoes, notes FROM decisions WHERE id = 'd1'").fetchone()
    assert json.loads(notes) == [
        ["option", [["option", "reduce_bid"], ["cost", "1.5"], ["bid", "0.3"], ["machine_id", "lower"]]],
        ["option", [["option", "stay"], ["cost", "1.6"]]],
    ]
    assert dict(json.loads(vetoes)[0][1])["unobserved_s"] == 960
    assert "unseen_s" not in vetoes
