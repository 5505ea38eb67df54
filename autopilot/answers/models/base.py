"""What all models have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Asked(BaseModel):
    """A body. A key that is not known is refused: what is mistyped would otherwise be left out in silence."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Query(BaseModel):
    """The part of an address behind the question mark. All of it is text."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class Answer(BaseModel):
    """Clients pass over what they do not know: a newer daemon may tell more."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)


class Problem(Answer):
    """An error (RFC 9457)."""

    title: str
    status: int
    reason: str
    """A code for programs."""
    detail: str
    hint: str
    """What to do about it; may be empty."""
    job: str | None = None
    """With ``same_job_open``: the id of that job."""
    plan: str | None = None
    """With ``confirm_first``: the id of the plan that a person must confirm."""
