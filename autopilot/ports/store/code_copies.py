"""Copies of the users' code."""

from __future__ import annotations

from typing import Protocol

from autopilot.domain.code import CodeCopy


class CodeCopies(Protocol):
    async def save(self, copy: CodeCopy) -> None:
        """Insert or, by id, update."""
        ...

    async def find(self, owner: int, sha256: str) -> CodeCopy | None:
        """The owner's newest of that hash which a job may take: a withdrawn one is none."""
        ...

    async def list_unused(self) -> tuple[CodeCopy, ...]:
        """Those that no job has and no schedule that has not ended, withdrawn ones too, oldest first."""
        ...

    async def remove(self, copy: CodeCopy) -> None: ...
