"""Types of the fields of answers: their names say what a value means, and how it crosses HTTP."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar

DECIMAL = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}


class _Unitless:
    """Marks a decimal that is not money: the OpenAPI document calls all others dollars."""

    def __get_pydantic_json_schema__(self, _core: Any, _handler: Any) -> dict[str, Any]:
        return dict(DECIMAL)


Money = Decimal
"""US dollars, or US dollars an hour for a rate."""
Number = Annotated[Decimal, _Unitless()]
Instant = datetime
"""ISO 8601 in UTC."""
Seconds = float
Scalar = str | int | float | bool | None
"""Of what is told by names that change from one to the next: events, notes of decisions."""


class Described:
    """What is said of the members of an answer is said in the OpenAPI document, too."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True}
