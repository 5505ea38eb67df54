"""``autopilot db``: care for the ledger's database, without the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cyclopts import Parameter

from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console
from autopilot.domain.errors import UserError

Flag = Parameter(negative="")
Action = Literal["check", "upgrade", "backup", "export", "move", "take-account"]


def db(
    action: Action,
    file: Path | None = None,
    /,
    *,
    to: str | None = None,
    market: str | None = None,
    config: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """Check, upgrade, back up, export or move the ledger's database.

    check only reads, and backup and export read one snapshot, so the daemon can keep running; the others need it
    stopped. A move copies to an empty database, reads every row back and leaves the old one unchanged. take-account
    says that a market's new key is of another account, and that nothing of ours is left in the one before.

    Parameters
    ----------
    action
        check, upgrade, backup, export, move or take-account.
    file
        For backup a SQLite file, for export a file of JSON lines (gzipped if it ends in .gz); never overwritten.
    to
        For move: a file, or postgresql://user@host/database.
    market
        For take-account: the market's name.
    config
        A configuration file, read after the system's and your own.
    """
    from autopilot.cli.views import check_list
    from autopilot.service import ledger

    if (file is None) is (action in ("backup", "export")):
        raise UserError(f"db {action} takes {'a' if file is None else 'no'} file", hint="see autopilot db --help")
    if (to is None) is (action == "move"):
        raise UserError(f"db {action} takes {'a' if to is None else 'no'} --to", hint="see autopilot db --help")
    if (market is None) is (action == "take-account"):
        raise UserError(f"db {action} takes {'a' if market is None else 'no'} --market", hint="see autopilot db --help")
    outcome = ledger.run(action, config, file=file, to=to, market=market)
    if not output.is_for_people:
        output.print(outcome.as_json())
    elif outcome.checks:
        console().print(check_list(outcome.checks))
    else:
        print("\n".join(outcome.lines))
    return Exit.FAILED if any(check["ok"] is False for check in outcome.checks) else Exit.OK
