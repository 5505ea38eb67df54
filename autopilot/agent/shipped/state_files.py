"""How far a trainer says it is in the file that it keeps in its checkpoint: Hugging Face's ``trainer_state.json``.

Its form: ``json.dumps(..., indent=2, sort_keys=True)`` in ``transformers/trainer_callback.py``. Between its first and
its last members is a log that grows with the training. Only both ends are read, and of them only lines that are
members of the outermost object: no size and no content of the file can do harm. Lightning keeps its state in a
pickle, which is not opened: that would run what is in it.
"""

from __future__ import annotations

import os
import re
import stat
from itertools import islice

from .trainers import State
from .tree import base_of, is_pattern

NAME = "trainer_state.json"
END_BYTES = 8192
MOST_ENTRIES = 1000
_MEMBER = re.compile(r"^  \"(global_step|max_steps|epoch)\": (\d{1,15}(?:\.\d{1,20})?),?$", re.MULTILINE)


def find_state(checkpoint_path: str) -> State | None:
    """Of the newest checkpoint there; None: there is none, or it is being written."""
    newest = max(list_states(checkpoint_path), default=None)
    return None if newest is None else read_state(newest[1])


def list_states(checkpoint_path: str) -> list[tuple[int, str]]:
    """State files with the times of their last change: of the directory itself, and of those in it.

    Of a pattern like ``out/checkpoint-*`` the directory is ``out``.
    """
    if not checkpoint_path:
        return []
    root = base_of(checkpoint_path) if is_pattern(checkpoint_path) else checkpoint_path
    try:
        with os.scandir(root) as entries:
            inner = [each.path for each in islice(entries, MOST_ENTRIES) if each.is_dir(follow_symlinks=False)]
    except (OSError, ValueError):
        return []
    found = []
    for directory in (root, *inner):
        path = os.path.join(directory, NAME)
        try:
            told = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(told.st_mode):
            found.append((told.st_mtime_ns, path))
    return found


def read_state(path: str) -> State | None:
    try:
        text = read_ends(path)
    except OSError:
        return None
    said = dict(_MEMBER.findall(text))
    if "global_step" not in said or "max_steps" not in said:
        return None
    step, steps, epoch = (float(said.get(name, 0)) for name in ("global_step", "max_steps", "epoch"))
    if steps < 1 or step > steps:
        return None
    # The number of epochs that it names is a whole one, also where the steps end within the last.
    return State(int(step), int(steps), epoch * steps / step if step and epoch else None)


def read_ends(path: str) -> str:
    """The whole lines among the first and the last bytes, which may overlap. Raises ``OSError``."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    try:
        size = os.fstat(file).st_size
        first = os.pread(file, END_BYTES, 0).decode("utf-8", "replace")
        if size <= END_BYTES:
            return first
        last = os.pread(file, END_BYTES, size - END_BYTES).decode("utf-8", "replace")
        return first.rpartition("\n")[0] + "\n" + last.partition("\n")[2]
    finally:
        os.close(file)
