"""Labels ↔ the names of machines, disks and policies. Pure.

What names may be is published nowhere; small letters, digits and dashes are taken by everything that others have
shown. Labels that a policy is given are thrown away by the market, so that the name alone says whose it is.
"""

from __future__ import annotations

import re

from autopilot.domain.labels import LABEL_PREFIX

_LABEL = re.compile(rf"{LABEL_PREFIX}\.([0-9a-z]+)\.([0-9A-Z]+)")
_NAME = re.compile(rf"{LABEL_PREFIX}-([0-9a-z]+)-([0-9a-z]+)(-\d{{1,4}})?")


def name_of(label: str) -> str:
    """A label of ours as a name; any other as it is."""
    match = _LABEL.fullmatch(label)
    return label if match is None else f"{LABEL_PREFIX}-{match[1]}-{match[2].lower()}"


def label_of(name: str) -> str:
    """Label of a machine, its disk, or any of its policies."""
    match = _NAME.fullmatch(name)
    return name if match is None else f"{LABEL_PREFIX}.{match[1]}.{match[2].upper()}"


def machine_of(name: str) -> str:
    """The machine to which a disk or a policy so called belongs."""
    return name_of(label_of(name))


def is_ours(name: str) -> bool:
    """Whether a machine, a disk or a policy so called was made by an autopilot, whichever."""
    return _NAME.fullmatch(name) is not None


def policy_name(name: str, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """Name of the next policy of the machine ``name``."""
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return found


def is_of(policy: str, name: str) -> bool:
    """Whether a policy so called belongs to the machine ``name``."""
    return policy == name or re.fullmatch(re.escape(name) + r"-\d{1,4}", policy) is not None
