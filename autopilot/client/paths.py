"""Paths of the API, from names as a person gives them. Standard library only."""

from __future__ import annotations

from urllib.parse import quote


def fill_path(path: str, names: tuple[str, ...]) -> str:
    """``/v1/jobs/{ref}/stop`` with a name in the place of each pair of braces."""
    for name in names:
        before, _, rest = path.partition("{")
        path = before + quote(name, safe="") + rest.partition("}")[2]
    return path


def job_path(ref: str, *rest: str) -> str:
    """``/v1/jobs/<ref>/…`` for a job's id or name."""
    return "/".join(["/v1/jobs", quote(ref, safe=""), *rest])


def instance_path(ref: str) -> str:
    """``/v1/instances/<ref>`` for a lease's id, the market's id of an instance, or a label."""
    return f"/v1/instances/{quote(ref, safe='')}"
