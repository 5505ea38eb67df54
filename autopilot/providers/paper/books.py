"""Paper instances on disk, whole or not at all, so that a daemon that starts again finds them."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from autopilot.domain.errors import UserError
from autopilot.providers.paper.instance import PaperInstance

_FORMAT = TypeAdapter(dict[str, PaperInstance])


def load(path: Path) -> dict[str, PaperInstance]:
    """Instances by id; none when there is no file yet. Raises ``UserError`` for a file that cannot be read."""
    try:
        return _FORMAT.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds something else"
        raise UserError(
            f"the paper instances in {path} cannot be read: {reason}",
            hint="they are simulated: delete the file to start without them",
        ) from None


def save(path: Path, instances: dict[str, PaperInstance]) -> None:
    """Raises ``OSError``, and then keeps the old file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = path.with_suffix(".new")
    with open(scratch, "wb") as file:
        file.write(_FORMAT.dump_json(instances))
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)
