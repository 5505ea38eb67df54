"""The program ``autopilot``: its commands, and how an error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from autopilot.cli import laboratory
from autopilot.cli.exits import Exit
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from cyclopts import App


class Command(NamedTuple):
    name: str
    target: str
    """``module:function``; imported only when the command runs."""
    summary: str


GROUPS = {
    "Jobs": (
        Command("run", "autopilot.cli.run:run", "Run a command from this directory on a rented machine"),
        Command("new", "autopilot.cli.new:new", "Write a commented job file for this directory"),
        Command("submit", "autopilot.cli.jobs:submit", "Submit a job, or show what it would cost"),
        Command("rehearse", "autopilot.cli.rehearse:rehearse", "Test here whether a training survives its machines"),
        Command("plan", "autopilot.cli.plan:plan", "Show a job's likely cost, and its chance to meet the deadline"),
        Command("ps", "autopilot.cli.jobs:ps", "List jobs (also: queue, status)"),
        Command("show", "autopilot.cli.jobs:show", "Show one job or one machine"),
        Command("logs", "autopilot.cli.logs:logs", "Print a job's output"),
        Command("pull", "autopilot.cli.pull:pull", "Download a job's results"),
        Command("why", "autopilot.cli.jobs:why", "Explain the decisions for a job, with numbers"),
        Command("wait", "autopilot.cli.actions:wait", "Wait for jobs, and exit with their outcome"),
        Command("change", "autopilot.cli.actions:change", "Change a job's budget, deadline or other limits"),
        Command("stop", "autopilot.cli.actions:stop", "Save a job and park it"),
        Command("resume", "autopilot.cli.actions:resume", "Resume a parked job"),
        Command("retry", "autopilot.cli.actions:retry", "Restart failed tasks of an array"),
        Command("cancel", "autopilot.cli.actions:cancel", "Stop jobs for good and release their machines"),
        Command("schedules", "autopilot.cli.schedules:schedules", "List, pause or end repeated submissions"),
        Command("release", "autopilot.cli.actions:release", "Release the machine kept after a job failed"),
        Command("exec", "autopilot.cli.exec:exec", "Run a command on a job's machine, next to the job"),
        Command("ssh", "autopilot.cli.ssh:ssh", "Open a shell on a job's machine"),
        Command("ssh-config", "autopilot.cli.ssh_config:ssh_config", "Set an editor's SSH up for a job's machine"),
    ),
    "Money": (
        Command("budget", "autopilot.cli.budget:budget", "Show limits, commitments, spend rate and runway"),
        Command("spend", "autopilot.cli.spend:spend", "Show spending, from the ledger"),
        Command("receipt", "autopilot.cli.receipt:receipt", "Itemize what a job cost, next to the markets' bills"),
        Command("reconcile", "autopilot.cli.reconcile:reconcile", "Compare the ledger with the markets' bills"),
    ),
    "Markets": (
        Command("offers", "autopilot.cli.market:offers", "List what can be rented now"),
        Command("prices", "autopilot.cli.prices:prices", "Plot a GPU's past prices"),
        Command("certify", "autopilot.cli.certify:certify", "Test what autopilot assumes about a market, for a dollar"),
        Command("drift", "autopilot.cli.drift:drift", "List how the markets' answers have changed"),
        Command("hosts", "autopilot.cli.hosts:hosts", "List what is remembered of machines, block or forgive them"),
        Command("orphans", "autopilot.cli.orphans:orphans", "List machines that no job needs, with their cost"),
        Command("sweep", "autopilot.cli.orphans:sweep", "From a second host: list or destroy leftover machines"),
    ),
    "Service": (
        Command("init", "autopilot.cli.setup:init", "Set up settings, API keys, limits and storage"),
        Command("serve", "autopilot.cli.service:serve", "Run the daemon"),
        Command("listen", "autopilot.cli.service:listen", "Serve storage and the API over TCP, in a separate process"),
        Command("dial", "autopilot.cli.service:dial", "Dial rented machines by SSH, in a separate process"),
        Command("web", "autopilot.cli.web:web", "Open the page: jobs, machines and money"),
        Command("doctor", "autopilot.cli.service:doctor", "Check settings, keys, markets and storage"),
        Command("db", "autopilot.cli.db:db", "Check, upgrade, back up, export or move the ledger"),
        Command("secret", "autopilot.cli.secrets:secret", "Store secrets for jobs, by name"),
        Command("token", "autopilot.cli.tokens:token", "Create tokens that let programs use the daemon, with limits"),
        Command("confirm", "autopilot.cli.confirm:confirm", "Confirm a plan that needs a person's approval"),
        Command("login", "autopilot.cli.login:login", "Point these commands at a remote daemon"),
        Command("notify", "autopilot.cli.notify:notify", "Send a test notice"),
        Command("completion", "autopilot.cli.completion:completion", "Print a shell completion script"),
        Command("version", "autopilot.cli.service:version", "Print the version"),
    ),
    "Laboratory": (  # by text alone: it is another distribution, and may be missing
        Command("demo", "autopilot_lab.demo.command:demo", "Watch a job survive the sandbox market"),
        Command("sandbox", "autopilot_lab.sandbox.command:sandbox", "Run a local market that costs nothing"),
        Command("backtest", "autopilot_lab.backtest.command:backtest", "Score policies on a recorded market"),
    ),
}

COMMANDS = tuple(command for group in GROUPS.values() for command in group)
OF_THE_LABORATORY = GROUPS["Laboratory"]

ALIASES = {"queue": "ps", "status": "ps"}
"""Names that other tools use for our commands."""

OVERVIEW = "Run GPU jobs on spot markets, within a deadline and a hard budget."


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Return the exit code of a command line; errors go to stderr, one line and perhaps a hint."""
    try:
        code = _run(argv)
        sys.stdout.flush()  # here a closed pipe is no error; at exit Python would print one
        return code
    except UserError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        from autopilot.cli.exit_codes import exit_code_of

        return exit_code_of(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe; without this, flushing at exit would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("--help", "-h"):
        print(overview(), flush=True)
        return Exit.OK if argv else Exit.USAGE
    return _dispatch(["version", *argv[1:]] if argv[0] == "--version" else [ALIASES.get(argv[0], argv[0]), *argv[1:]])


def overview() -> str:
    """Return the text of ``autopilot --help``, from the table alone: help must not wait for imports."""
    width = max(len(command.name) for command in COMMANDS)
    lines = ["Usage: autopilot COMMAND [OPTIONS]", "", OVERVIEW, ""]
    for group, commands in GROUPS.items():
        missing = " (not installed)" if commands is OF_THE_LABORATORY and not laboratory.is_installed() else ""
        rows = [f"  {command.name:<{width}}  {command.summary}" for command in commands]
        lines += [f"{group}{missing}:", *rows, ""]
    return "\n".join([*lines, "Run autopilot COMMAND --help for details."])


def app() -> App:
    """Every command that is installed, registered by name; none is imported yet."""
    from cyclopts import App

    from autopilot.cli.help_text import HelpFormatter

    made = App(
        name="autopilot",
        help=OVERVIEW,
        version_flags=[],
        help_format="plaintext",
        help_formatter=HelpFormatter(),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
    )
    for command in COMMANDS:
        if command not in OF_THE_LABORATORY or laboratory.is_installed():
            made.command(command.target, name=command.name)
    return made


def _dispatch(argv: Sequence[str]) -> int:
    if any(argv[0] == command.name for command in OF_THE_LABORATORY):
        laboratory.require(argv[0])
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
