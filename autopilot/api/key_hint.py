"""What to do about a key that a market refuses."""

from __future__ import annotations

from collections.abc import Iterable

from autopilot.markets.installed import facts_of


def replace_keys(markets: Iterable[str]) -> str:
    """The command that replaces these markets' keys; on paper a market has the real one's."""
    real = [name.removeprefix("paper-") for name in markets]
    known = [facts for name in real if (facts := facts_of(name)) is not None]
    options = " ".join(f"{facts.key_option} FILE" for facts in known if facts.key_option)
    if not options:
        return "put a valid key into the file that api_key_file names: the daemon reads it at its next look"
    return (
        f"store a valid key with: autopilot init --force {options}"
        ": the daemon reads it at its next look (the system's: with sudo and --system, then restart it)"
    )
