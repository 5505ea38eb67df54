"""Names for arrays by their elements; numpy itself is imported only where tables are made or played."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Singles: TypeAlias = "NDArray[np.float32]"
"""Half the room: what whole tables are made of."""
Flags: TypeAlias = "NDArray[np.bool_]"
Indices: TypeAlias = "NDArray[np.intp]"
