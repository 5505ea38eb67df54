"""What to do about a key that a market refuses."""

from __future__ import annotations

from collections.abc import Iterable

OPTIONS = {
    "vastai": "--vast-key-file",
    "runpod": "--runpod-key-file",
    "mithril": "--mithril-key-file",
    "nebius": "--nebius-key-file",
}
"""Market → the option of ``autopilot init`` that takes its key."""


def replace_keys(markets: Iterable[str]) -> str:
    """The command that replaces these markets' keys; on paper a market has the real one's."""
    real = [name.removeprefix("paper-") for name in markets]
    options = " ".join(f"{OPTIONS[name]} FILE" for name in real if name in OPTIONS)
    if not options:
        return "put a valid key into the file that api_key_file names: the daemon reads it at its next look"
    return (
        f"store a valid key with: autopilot init --force {options}"
        ": the daemon reads it at its next look (the system's: with sudo and --system, then restart it)"
    )
