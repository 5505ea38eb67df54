"""What the host of a virtual machine tells its container by files: variables and notices; and what it is told."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from typing import Any

ENV_FILE, NOTICE, WISH, GRACE_S = "AUTOPILOT_ENV_FILE", "AUTOPILOT_NOTICE", "AUTOPILOT_WISH", "AUTOPILOT_GRACE_S"
MOST_BYTES = 100000


def beneath(env: Mapping[str, str], path: str) -> str:
    """``path`` as seen from the instance's root."""
    return os.path.join(os.path.abspath(env.get("AUTOPILOT_ROOT") or "/"), path.lstrip("/"))


def read_env_file(env: MutableMapping[str, str]) -> None:
    """Add what the file holds that ``ENV_FILE`` names, if it names one. Raises ``OSError``, ``ValueError``.

    What a container is started with in its environment lies in clear on the host's disk; this file never does.
    """
    path = env.get(ENV_FILE)
    if not path:
        return
    with open(beneath(env, path)) as file:
        values = json.loads(file.read(MOST_BYTES))
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError("the file of the environment holds something else")
    env.update(values)


def write_wish(env: Mapping[str, str], wish: str) -> bool:
    """Tell the host that this machine is to go; False if none listens. Raises ``OSError``."""
    path = env.get(WISH)
    if not path:
        return False
    path = beneath(env, path)
    with open(path + ".new", "w") as file:
        file.write(wish)
    os.replace(path + ".new", path)
    return True


class Notice:
    """That the market takes the machine away: ``kind`` and ``ends_at`` in the host's words; None while there is none.

    A soft one may be withdrawn: the work is saved and goes on. After a hard one it is saved and ended.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.path = beneath(env, env[NOTICE]) if env.get(NOTICE) else ""
        self.told: dict[str, Any] | None = None
        self.default_grace_s = _seconds(env.get(GRACE_S))

    def look(self) -> bool:
        """Whether it has changed."""
        before, self.told = self.told, self._read()
        return self.told != before

    @property
    def is_hard(self) -> bool:
        return self.told is not None and not self.told["soft"]

    @property
    def grace_s(self) -> float:
        """Market seconds to save and end on a notice; 0: unknown."""
        return self.told["grace_s"] if self.told is not None and self.is_hard else self.default_grace_s

    def report(self) -> dict[str, str] | None:
        return None if self.told is None else {name: self.told[name] for name in ("kind", "ends_at")}

    def _read(self) -> dict[str, Any] | None:
        if not self.path:
            return None
        try:
            with open(self.path) as file:
                body = json.loads(file.read(MOST_BYTES))
            told = {name: str(body[name])[:40] for name in ("kind", "ends_at")}
            return {**told, "soft": body["soft"] is True, "grace_s": _seconds(body.get("grace_s"))}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return self.told  # it is being written, or cannot be read now


def _seconds(value: Any) -> float:
    try:
        return min(max(0.0, float(value)), 3600.0)  # of NaN, too
    except (TypeError, ValueError):
        return 0.0
