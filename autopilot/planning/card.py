"""What a card behind an account does to its last fuse, in words: what a hostile host or a bug could spend at most."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain.instance import Account, TopUp
from autopilot.domain.money import show

UNVERIFIED = "what that field means is not verified"
FIELD = "balance_threshold_enabled"


def tell_top_up(market: str, top_up: TopUp) -> str:
    """For a plan: empty if nothing says that a card pays in."""
    if not top_up.is_on:
        return ""
    return f"a card may top up the account at {market}{_below(top_up)}: its credit is no last safeguard ({UNVERIFIED})"


def judge_card(
    account: Account, word: bool | None, day: Decimal | None, month: Decimal | None
) -> tuple[bool | None, str]:
    """Whether the account's credit bounds what is lost, and what could be spent at most. ``word``: the operator's own
    on whether a card pays in; None: not asked yet, or not known. ``day``, ``month``: our own limits.
    """
    ours = _tell_ours(day, month)
    if account.credit is None:
        return None, f"this market reports no credit: bills of any size go to your card. {ours}"
    if account.top_up.is_on or word:
        says = [
            *([f"the account answers {FIELD}{_below(account.top_up)}; {UNVERIFIED}"] if account.top_up.is_on else []),
            *([f"tops_up is {str(word).lower()} in the settings"] if word is not None else []),
        ]
        return None, (
            f"a card may top up the account ({'; '.join(says)}): its credit of {show(account.credit)} is no last "
            "safeguard. "
            f"{ours}"
        )
    fuse = (
        f"a hostile host, a bug or a stolen key can spend the credit of {show(account.credit)} at most, and what disks "
        "bill below zero where a card is on file"
    )
    if word is False:
        return True, f"no card tops up the account, according to tops_up in the settings: {fuse}"
    if account.top_up.is_on is None:
        return None, f"the market does not tell whether a card tops the account up. Only if none does: {fuse}"
    return None, f"the account answers that no card tops it up ({FIELD}; {UNVERIFIED}). If that is so: {fuse}"


def advise(market: str, account: Account, word: bool | None) -> str:
    """What to do about it."""
    if account.credit is None:
        return "give the card a limit at your bank, and set [limits] to what you can afford to lose"
    if account.top_up.is_on or word:
        return (
            f"switch it off on {market}'s billing page and set tops_up = false in [providers.{market}], or give the "
            "card a limit at your bank"
        )
    return f"look at {market}'s billing page, and set tops_up = false (or true) in [providers.{market}]"


def _below(top_up: TopUp) -> str:
    return "" if top_up.below is None else f" below {show(top_up.below)}"


def _tell_ours(day: Decimal | None, month: Decimal | None) -> str:
    caps = [f"{show(cap)} a {period}" for cap, period in ((day, "day"), (month, "month")) if cap is not None]
    told = f"autopilot rents for {' and '.join(caps)} at most, by [limits]" if caps else "[limits] sets no limit"
    return f"{told}; a hostile host's traffic, a bug or a stolen key can spend what the card pays"
