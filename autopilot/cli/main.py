"""The program ``autopilot``: its commands, and how an error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from autopilot.cli.exits import CommandError, Exit
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from cyclopts import App


class Command(NamedTuple):
    name: str
    target: str
    """``module:function``; imported only when the command runs."""
    summary: str


COMMANDS = (
    Command("init", "autopilot.cli.setup:init", "Write a commented configuration file, store API keys"),
    Command("serve", "autopilot.cli.service:serve", "Run the daemon"),
    Command("listen", "autopilot.cli.service:listen", "Serve mailbox and API over TCP, apart from the daemon"),
    Command("run", "autopilot.cli.run:run", "Run a command of this directory on a rented machine"),
    Command("new", "autopilot.cli.new:new", "Write a commented job file for this directory"),
    Command("submit", "autopilot.cli.jobs:submit", "Hand a job to the daemon, or show what it would cost"),
    Command("plan", "autopilot.cli.plan:plan", "Show what a job would cost, and whether it would be in time"),
    Command("ps", "autopilot.cli.jobs:ps", "List jobs; also called queue and status"),
    Command("show", "autopilot.cli.jobs:show", "Show one job or one machine, from its beginning"),
    Command("logs", "autopilot.cli.logs:logs", "Print a job's output"),
    Command("pull", "autopilot.cli.pull:pull", "Fetch what a job has left"),
    Command("why", "autopilot.cli.jobs:why", "Explain what was decided for a job, in numbers"),
    Command("wait", "autopilot.cli.actions:wait", "Wait for jobs, and exit with their outcome"),
    Command("change", "autopilot.cli.actions:change", "Change a job's budget, deadline or highest price"),
    Command("stop", "autopilot.cli.actions:stop", "Save a job and park it"),
    Command("resume", "autopilot.cli.actions:resume", "Let a parked job go on"),
    Command("retry", "autopilot.cli.actions:retry", "Let failed tasks of an array begin anew"),
    Command("cancel", "autopilot.cli.actions:cancel", "Stop jobs for good and release their machines"),
    Command("schedules", "autopilot.cli.schedules:schedules", "List, pause and end what is submitted again and again"),
    Command("release", "autopilot.cli.actions:release", "Give back the machine that is held of a failed job"),
    Command("exec", "autopilot.cli.exec:exec", "Run a command on a job's machine, beside the job"),
    Command("ssh", "autopilot.cli.ssh:ssh", "Open a shell on a job's machine"),
    Command("offers", "autopilot.cli.market:offers", "Show what can be rented now"),
    Command("prices", "autopilot.cli.prices:prices", "Plot what a GPU has cost"),
    Command("spend", "autopilot.cli.spend:spend", "Show what was spent, from the ledger"),
    Command("receipt", "autopilot.cli.receipt:receipt", "Itemize what a job cost, beside the markets' bills"),
    Command("web", "autopilot.cli.web:web", "Show jobs and money as a page, from the ledger"),
    Command("budget", "autopilot.cli.budget:budget", "Show limits, commitments and how long the money lasts"),
    Command("reconcile", "autopilot.cli.reconcile:reconcile", "Compare the ledger with the markets' bills"),
    Command("drift", "autopilot.cli.drift:drift", "List how the markets' answers have changed"),
    Command("orphans", "autopilot.cli.orphans:orphans", "List machines that no job wants, with their prices"),
    Command("sweep", "autopilot.cli.orphans:sweep", "On a second host: find, or destroy, what was left"),
    Command("backtest", "autopilot.lab.backtest.command:backtest", "Score policies on a recorded market"),
    Command("secret", "autopilot.cli.secrets:secret", "Keep secrets for jobs, by name"),
    Command("token", "autopilot.cli.tokens:token", "Make tokens that let programs use the daemon, within bounds"),
    Command("confirm", "autopilot.cli.confirm:confirm", "Confirm what a token asks a person about"),
    Command("login", "autopilot.cli.login:login", "Let the commands here speak to a daemon elsewhere"),
    Command("certify", "autopilot.cli.certify:certify", "Prove what is assumed of a market, for a dollar"),
    Command("notify", "autopilot.cli.notify:notify", "Try the sinks that notices go to"),
    Command("doctor", "autopilot.cli.service:doctor", "Check settings, keys, markets and storage"),
    Command("db", "autopilot.cli.db:db", "Check, upgrade, back up, export or move the ledger"),
    Command("sandbox", "autopilot.lab.sandbox.command:sandbox", "Run a local market that costs nothing"),
    Command("demo", "autopilot.lab.demo.command:demo", "Watch a job survive the sandbox market"),
    Command("completion", "autopilot.cli.completion:completion", "Print what makes a shell complete commands"),
    Command("version", "autopilot.cli.service:version", "Print the version"),
)

ALIASES = {"queue": "ps", "status": "ps"}
"""What other tools call a command of ours."""

OVERVIEW = "autopilot: runs GPU jobs on spot markets, within a deadline and a hard budget."


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line; errors stand on stderr, one line and perhaps a hint."""
    try:
        code = _run(argv)
        sys.stdout.flush()  # here, where a reader that has gone is no error; at exit it would be a complaint
        return code
    except UserError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code if isinstance(error, CommandError) else Exit.USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has gone; without this, flushing at exit would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("--help", "-h"):
        print(overview(), flush=True)
        return Exit.OK if argv else Exit.USAGE
    return _dispatch(["version", *argv[1:]] if argv[0] == "--version" else [ALIASES.get(argv[0], argv[0]), *argv[1:]])


def overview() -> str:
    """The text of ``autopilot --help``, made from the table alone: help must not wait for imports."""
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "Usage: autopilot COMMAND [OPTIONS]",
            "",
            OVERVIEW,
            "",
            "Commands:",
            *lines,
            "",
            "autopilot COMMAND --help says more.",
        ]
    )


def app() -> App:
    """Every command, registered by name; none is imported yet."""
    from cyclopts import App

    made = App(
        name="autopilot",
        help=OVERVIEW,
        version_flags=[],
        help_format="plaintext",
        help_formatter="plain",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
    )
    for command in COMMANDS:
        made.command(command.target, name=command.name)
    return made


def _dispatch(argv: Sequence[str]) -> int:
    from cyclopts import CycloptsError

    try:
        # Help, which is printed and not returned, gives None.
        return app()(argv) or Exit.OK
    except CycloptsError as error:
        command = argv[0] if any(argv[0] == known.name for known in COMMANDS) else ""
        hint = f"see autopilot {command} --help" if command else "see autopilot --help"
        raise UserError(" ".join(str(error).split()), hint=hint) from None


if __name__ == "__main__":
    main()
