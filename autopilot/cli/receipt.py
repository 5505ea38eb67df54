"""``autopilot receipt``: what a job cost, line by line, and how far the markets' bills confirm it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autopilot.answers.money import ItemizedReceipt, ReceiptLine, ReceiptMachine
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console, facts, table
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.words import bills, receipts, text

if TYPE_CHECKING:
    from rich.console import RenderableType


def receipt(job: str, /, *, output: Output = FOR_PEOPLE) -> int:
    """Itemize what a job cost: by machine, and by day and kind of cost, beside the markets' bills.

    Of a job that still runs, it shows what has been posted so far.

    Parameters
    ----------
    job
        The job's id or name.
    """
    body = JsonClient().get(job_path(job, "receipt"))
    if not output.is_for_people:
        output.print(body, "lines")
        return Exit.OK
    out = console()
    for part in _show(read(ItemizedReceipt, body)):
        out.print(part)
    return Exit.OK


def _show(body: ItemizedReceipt) -> list[RenderableType]:
    job = body.job
    named = f"{text.plain(job.name)} ({text.plain(job.id)}), {text.words(job.status)}"
    begun, ended = text.minute(job.submitted_at), text.minute(job.finished_at)
    parts: list[RenderableType] = [
        facts([("job", named), ("from", f"{begun} to {ended} UTC"), ("receipt", receipts.tell(body))]),
    ]
    if body.lines:
        parts += ["\nMachines", _list_machines(body.machines), "\nLedger", _list_lines(body.lines)]
    return parts


def _list_machines(machines: list[ReceiptMachine]) -> RenderableType:
    columns = ("MACHINE", "GPU", "TYPE", "RAN", "POSTED", "INVOICED", "BILL")
    posted, invoiced = (text.Amounts(machines, (name,)).sum_columns([name])[0] for name in ("posted", "invoiced"))
    shown = [
        (
            f"{text.plain(each.provider)} {text.plain(each.instance_id)}",
            f"{each.num_gpus}×{text.plain(each.gpu)}",
            text.words(each.capacity_type),
            text.span(each.running_s),
            paid,
            text.NONE if each.invoiced is None else billed,
            bills.tell_wait(each.waits_for, each.posted, is_billed=each.invoiced is not None),
        )
        for each, paid, billed in zip(machines, posted, invoiced, strict=False)
    ]
    shown.append(("total", "", "", "", posted[-1], invoiced[-1], ""))
    return table(columns, shown, right=columns[3:6], drop=("TYPE", "RAN", "GPU", "INVOICED"))


def _list_lines(lines: list[ReceiptLine]) -> RenderableType:
    amounts = text.Amounts(lines, ("amount",)).sum_columns(["amount"])[0]
    shown = [
        (
            text.plain(each.day),
            f"{text.plain(each.provider)} {text.plain(each.instance_id)}",
            text.words(each.kind),
            amount,
        )
        for each, amount in zip(lines, amounts, strict=False)
    ]
    return table(("DAY (UTC)", "MACHINE", "FOR", "AMOUNT"), [*shown, ("total", "", "", amounts[-1])], right=("AMOUNT",))
