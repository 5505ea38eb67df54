"""``autopilot token``: what lets a program use the daemon, and only so far."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import Parameter

from autopilot.answers.tokens import MadeToken, RevokedToken, Token, Tokens
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console, table
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import TOKEN_VARIABLE
from autopilot.domain.errors import UserError
from autopilot.words import text

Flag = Parameter(negative="")


def token(
    action: Literal["create", "ls", "revoke"],
    name: str | None = None,
    /,
    *,
    scope: Literal["read", "operate", "submit", "admin"] = "read",
    see_all: Annotated[bool, Parameter(name="--all", negative="")] = False,
    allow: str | None = None,
    ask_above: str | None = None,
    expires: str | None = None,
    secret: Annotated[list[str] | None, Parameter(negative="")] = None,
    park: Annotated[bool, Flag] = False,
    output: Output = FOR_PEOPLE,
) -> int:
    """Create, list and revoke tokens. A token is shown once; a program sends it in AUTOPILOT_TOKEN.

    Parameters
    ----------
    action
        create makes one and prints it; ls lists them without their values; revoke ends one at once.
    name
        Name of the token.
    scope
        read sees its own jobs; operate also stops and resumes them; submit also creates jobs; admin can do everything.
    see_all
        Also allow reading what concerns other owners and the whole account.
    allow
        Dollars its jobs may cost together: $20/month per UTC month, $20 in total; its creator's limit also applies.
    ask_above
        Dollars above which a person must confirm each job and each raise of its limits: autopilot confirm.
    expires
        Lifetime, like 30d; default: until revoked, or as long as its creator.
    secret
        A secret that its job files may name, in [secrets] or [registry]. Can be repeated; default: none.
    park
        With revoke: save and park all its jobs and those of tokens it made; default: only jobs not started yet.
    """
    client = JsonClient()
    if action == "ls":
        return _list(client, output)
    if name is None:
        raise UserError(f"which token? (autopilot token {action} NAME)")
    if action == "revoke":
        return _revoke(client, name, park, output)
    wish: dict[str, Any] = {"name": name, "scope": scope, "sees_all": see_all, "allow": allow or ""}
    wish |= {"expires": expires or "", "secrets": secret or [], "ask_above": ask_above or ""}
    body = client.post("/v1/tokens", wish)
    if not output.is_for_people:
        output.print(body)
        return Exit.OK
    made = read(MadeToken, body)
    token = made.token
    print(made.secret)
    print(f"{token.name}: scope {token.scope}, expires {_day(token.expires_at)}", file=sys.stderr)
    print(f"it is shown once; give it to the program as {TOKEN_VARIABLE}", file=sys.stderr)
    return Exit.OK


def _list(client: JsonClient, output: Output) -> int:
    body = client.get("/v1/tokens")
    if not output.is_for_people:
        output.print(body, "tokens")
        return Exit.OK
    listed = read(Tokens, body).tokens
    if not listed:
        print("no tokens (autopilot token create NAME makes one)")
        return Exit.OK
    columns = ("NUMBER", "NAME", "MADE BY", "SCOPE", "ALLOWANCE", "SECRETS", "EXPIRES", "STATUS")
    console().print(table(columns, map(_row, listed), right=("NUMBER",)))
    return Exit.OK


def _revoke(client: JsonClient, name: str, park: bool, output: Output) -> int:
    body = client.post(f"/v1/tokens/{quote(name, safe='')}/revoke", {"park": park})
    if not output.is_for_people:
        output.print(body)
        return Exit.OK
    revoked = read(RevokedToken, body)
    count, ended = len(revoked.parked), revoked.ended
    made = f", and what it made: {', '.join(map(text.plain, ended))}" if ended else ""
    whose = "their" if ended else "its"
    jobs = f"; {count} of {whose} jobs {'is' if count == 1 else 'are'} being parked" if count else ""
    print(f"revoked {text.plain(name)}{made}{jobs}")
    return Exit.OK


def _row(each: Token) -> tuple[str, ...]:
    scope = f"{each.scope}, all" if each.sees_all and each.scope != "admin" else each.scope
    status = "in force" if each.in_force else "revoked" if each.revoked_at else "expired"
    secrets = ", ".join(map(text.plain, each.secrets)) or "none"
    made_by = text.plain(each.made_by or "a user")
    named = str(each.number), text.plain(each.name), made_by, scope, _allowance(each)
    return *named, secrets, _day(each.expires_at), status


def _allowance(each: Token) -> str:
    if each.allowance is None:
        return "none"
    return f"{text.money(each.allowance)}{'/month' if each.is_monthly else ' in all'}"


def _day(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant:%Y-%m-%d %H:%M} UTC"
