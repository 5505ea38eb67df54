"""How a person writes which GPUs will do: ``4090:1 | A100 80GB:2``, in a job file, on the command line, in the API."""

from __future__ import annotations

from autopilot.domain.job import GpuChoice

MOST_CHOICES = 20
_MOST_DIGITS = 4


def parse_choices(text: str) -> tuple[GpuChoice, ...]:
    """The choices in order of the text; the count is 1 when left out. Raises ``ValueError`` with what is wrong."""
    alternatives = text.split("|")
    if len(alternatives) > MOST_CHOICES:
        raise ValueError(f"names {len(alternatives)} kinds of GPU, of which {MOST_CHOICES} may be named")
    return tuple(_parse_choice(each) for each in alternatives)


def _parse_choice(text: str) -> GpuChoice:
    name, colon, number = text.partition(":")
    name, number = " ".join(name.split()), number.strip()
    if not name or (colon and not (number.isascii() and number.isdecimal())):
        raise ValueError(f'not a GPU and count: {text.strip()!r} (write it as "RTX 4090:1 | A100 PCIE:2")')
    if len(number) > _MOST_DIGITS or (colon and int(number) < 1):
        raise ValueError(f"of {name} there must be 1 or more, not {number[:20]}")
    return GpuChoice(name, int(number) if colon else 1)
