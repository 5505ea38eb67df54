"""``[owners]``: who can be limited, and in which words others are refused."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from autopilot.config.owners import MOST, OwnerSettings, read_owners
from autopilot.domain.errors import UserError
from autopilot.domain.token import Scope
from tests.permissions import OTHER_USER

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAEMON = pwd.getpwnam("daemon").pw_uid


def read(name: str = OTHER_USER, **keys: Any) -> Any:
    return read_owners({name: OwnerSettings(**keys)}, NOW, DAEMON)


def test_a_user_s_limits() -> None:
    uid = pwd.getpwnam(OTHER_USER).pw_uid
    token = read(scope="operate", all=True, secrets=["hf"], allow="$20/month", ask_above="$5")[uid]
    assert (token.owner, token.name, token.scope, token.sees_all) == (uid, OTHER_USER, Scope.OPERATE, True)
    assert (token.allowance, token.is_monthly, token.ask_above) == (Decimal(20), True, Decimal(5))
    assert (token.secrets, token.is_of_user, token.is_in_force(NOW)) == (("hf",), True, True)


def test_without_an_allowance_the_account_s_limits_hold_alone() -> None:
    (token,) = read().values()
    assert (token.scope, token.allowance, token.ask_above) == (Scope.SUBMIT, None, None)


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("no-such-user", {}, "owners.no-such-user: this machine has no user 'no-such-user'"),
        ("a\0b", {}, "has no user"),
        ("root", {}, "owners.root: root can do everything here"),
        ("daemon", {}, "owners.daemon: daemon can do everything here"),
        (OTHER_USER, {"allow": "$20/week"}, f"owners.{OTHER_USER}: allow cannot be '$20/week'"),
        (OTHER_USER, {"allow": "-$1"}, f"owners.{OTHER_USER}: "),
        (OTHER_USER, {"allow": "$0"}, f"owners.{OTHER_USER}: allow must be positive"),
        (OTHER_USER, {"ask_above": "much"}, f"owners.{OTHER_USER}: "),
    ],
)
def test_what_is_refused(name: str, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        read(name, **keys)
    assert words in str(refused.value)
    assert refused.value.hint


def test_there_are_not_too_many() -> None:
    with pytest.raises(UserError, match=str(MOST)):
        read_owners({f"u{number}": OwnerSettings() for number in range(MOST + 1)}, NOW, os.getuid())
