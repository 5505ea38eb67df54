"""``autopilot orphans`` and ``autopilot sweep``: what is on the account although no job wants it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, FittedTable, Output, console, table
from autopilot.domain.errors import UserError
from autopilot.domain.time import parse_duration, show_duration
from autopilot.words import text

if TYPE_CHECKING:
    from autopilot.domain.instance import Instance
    from autopilot.service.far_sweep import Swept
    from autopilot.service.left_logins import LeftLogin

Flag = Parameter(negative="")


def orphans(*, config: Path | None = None, output: Output = FOR_PEOPLE) -> int:
    """List the machines on your accounts that no job needs, with their cost; change nothing.

    Also lists our registry logins that a market keeps and no job uses.

    Reads the markets and the ledger directly, so it works with or without a running daemon. Exits with 1 if it finds
    something of ours that should not exist, with 3 if a market could not be read.

    Parameters
    ----------
    config
        A configuration file, read after the system's and your own.
    """
    from autopilot.service.orphans import Kind, run

    census = run(config)
    if not output.is_for_people:
        rows = [_row(each.instance) | {"kind": each.kind.value, "why": each.why} for each in census.findings]
        output.print(
            {
                "install_id": census.install_id,
                "wanted": census.wanted,
                "orphans": rows,
                "logins": [_login(each.login) | {"kind": each.kind.value, "why": each.why} for each in census.logins],
                "dollars_per_hour": {kind.value: census.bills(kind) for kind in Kind},
                "unreadable": census.unreadable,
            },
            "orphans",
        )
    else:
        out = console()
        titles = {
            Kind.UNWANTED: "Ours, and unwanted: the daemon destroys them",
            Kind.UNKNOWN: "Our label, but unknown to the ledger",
            Kind.FOREIGN: "Not ours: never touched",
        }
        for kind, title in titles.items():
            found = [each for each in census.findings if each.kind is kind]
            if found:
                out.print(f"{title}, {text.per_hour(census.bills(kind))}")
                out.print(_machines([(each.instance, each.why) for each in found]))
        if census.logins:
            out.print("Our registry logins that no job uses: the daemon deletes them")
            out.print(_logins([(each.login, each.why) for each in census.logins]))
        out.print(f"{census.wanted} machines are wanted by jobs")
        _name_unreadable(census.unreadable)
    return Exit.FAILED if census.ours else Exit.UNREACHABLE if census.unreadable else Exit.OK


def sweep(
    *,
    from_elsewhere: Annotated[bool, Flag] = False,
    install_id: str | None = None,
    older_than: str = "73h",
    kill: Annotated[bool, Flag] = False,
    config: Path | None = None,
    output: Output = FOR_PEOPLE,
) -> int:
    """On a second host: list the machines that an autopilot has rented, or destroy the ones that are too old.

    The last resort if the daemon's host and its ledger are lost. It needs only a market's key, identifies machines by
    their labels, and touches none without one. No lease lives longer than 72 hours, so no job needs an older machine; a
    smaller --older-than also ends machines that a running daemon still needs. Registry logins that a market keeps are
    deleted once no younger machine of their installation exists.

    Parameters
    ----------
    from_elsewhere
        Confirm that this host has no ledger of the machines; the daemon's own host sweeps by itself.
    install_id
        Only machines of this installation: the middle part of their labels.
    older_than
        Destroy only machines rented at least this long ago, like 73h; 0s for all.
    kill
        Destroy them; without it nothing changes.
    config
        A configuration file, read after the system's and your own.
    """
    if not from_elsewhere:
        raise UserError(
            "on a host with a ledger the daemon sweeps by itself",
            hint="autopilot orphans lists what it will destroy; on a host without a ledger: sweep --from-elsewhere",
        )
    age = parse_duration(older_than)
    from autopilot.service.far_sweep import run

    swept = run(config, install_id, kill=kill, older_than=age)
    if not output.is_for_people:
        rows = [
            _row(each.instance)
            | {"install_id": each.install_id, "age_s": int(each.age.total_seconds()), "due": each.due}
            for each in swept.seen
        ]
        outcome = {name: [one.instance_id for one in getattr(swept, name)] for name in ("gone", "left")}
        kept = {
            "logins": [_login(each.login) | {"due": each.due} for each in swept.logins],
            "logins_gone": [each.login_id for each in swept.logins_gone],
            "logins_left": [each.login_id for each in swept.logins_left],
        }
        output.print({"machines": rows, **outcome, **kept, "unreadable": swept.unreadable}, "machines")
    else:
        out = console()
        if swept.seen:
            described = [(each, f"{show_duration(each.age)}, {'due' if each.due else 'young'}") for each in swept.seen]
            out.print(_machines([(each.instance, f"of {each.install_id}, {words}") for each, words in described]))
        out.print(f"{len(swept.seen)} machines of autopilot, {sum(each.due for each in swept.seen)} of them due")
        if kill:
            out.print(f"{len(swept.gone)} destroyed and seen gone, {len(swept.left)} not gone yet")
        if swept.logins:
            _show_logins(swept, kill=kill)
        _name_unreadable(swept.unreadable)
    return Exit.FAILED if swept.left or swept.logins_left else Exit.UNREACHABLE if swept.unreadable else Exit.OK


def _show_logins(swept: Swept, *, kill: bool) -> None:
    out = console()
    described = [(each.login, "due" if each.due else "its installation has a machine") for each in swept.logins]
    out.print(_logins([(login, f"of {login.install_id}, {words}") for login, words in described]))
    due = sum(each.due for each in swept.logins)
    out.print(f"{len(swept.logins)} registry logins of autopilot, {due} of them due")
    if kill:
        out.print(f"{len(swept.logins_gone)} deleted and seen gone, {len(swept.logins_left)} not gone yet")


def _login(login: LeftLogin) -> dict[str, Any]:
    return {
        "provider": login.provider,
        "login_id": login.login_id,
        "name": login.name,
        "install_id": login.install_id,
    }


def _logins(described: list[tuple[LeftLogin, str]]) -> FittedTable:
    rows = [(f"{login.provider} {text.plain(login.login_id)}", text.plain(login.name), why) for login, why in described]
    return table(("LOGIN", "NAME", "WHY"), rows)


def _row(instance: Instance) -> dict[str, Any]:
    return {
        "provider": instance.provider,
        "instance_id": instance.instance_id,
        "label": instance.label,
        "status": instance.status,
        "gpu": instance.gpu,
        "num_gpus": instance.num_gpus,
        "dollars_per_hour": instance.bills,
        "bid": instance.bid,
        "storage_rate": instance.storage_rate,
    }


def _machines(census: list[tuple[Instance, str]]) -> FittedTable:
    rows = [
        (
            f"{instance.provider} {text.plain(instance.instance_id)}",
            text.plain(instance.label),
            text.gpu(instance.num_gpus, instance.gpu),
            instance.status.value,
            text.per_hour(instance.bills),
            text.plain(why),
        )
        for instance, why in census
    ]
    return table(("MACHINE", "LABEL", "GPU", "STATUS", "BILLS", "WHY"), rows, right=("BILLS",))


def _name_unreadable(unreadable: dict[str, str]) -> None:
    for name, reason in unreadable.items():
        console().print(f"{name} cannot be read, so its machines are unknown: {text.plain(reason)}")
