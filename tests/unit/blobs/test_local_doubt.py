"""Where the store's directory cannot be looked at, nothing in it counts as gone."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from autopilot.blobs.admission import Admission
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.ports.blobs import BlobUnavailable
from tests.permissions import kept_out

KEY = "jobs/job/lease/part"


async def test_an_object_that_may_not_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path / "blobs", b"k" * 32, "")
    await store.put(KEY, b"four")
    assert (await store.size(KEY), await store.size("jobs/none")) == (4, None)
    assert (await store.sizes("jobs"), await store.sizes(KEY), await store.sizes("none")) == ({KEY: 4}, {KEY: 4}, {})
    with kept_out(tmp_path / "blobs"):
        for look in (store.size, store.sizes):
            with pytest.raises(BlobUnavailable):
                await look(KEY)


def test_bounds_that_may_not_be_looked_at_are_not_left_out(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    admission = Admission(MailboxPlace(place).leases_path)
    assert admission.most_bytes(KEY) == inf
    admission.write({"jobs/job/lease": 7})
    assert admission.most_bytes(KEY) == 7
    with kept_out(place), pytest.raises(PermissionError):
        admission.most_bytes(KEY)
