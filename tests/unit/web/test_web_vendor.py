"""Others' programs in the page are those that their authors published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import autopilot.web

VENDOR = Path(autopilot.web.__file__).parent / "vendor"
_ROW = re.compile(r"^\| `([\w.-]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_each_file_has_the_hash_that_is_stated() -> None:
    stated = dict(_ROW.findall((VENDOR / "README.md").read_text()))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.suffix in (".js", ".css")
    }
    assert found == stated
    assert len(found) == 4


def test_their_licences_are_there() -> None:
    assert "Zero-Clause BSD" in (VENDOR / "LICENSE.htmx").read_text()
    assert "The MIT License" in (VENDOR / "LICENSE.uPlot").read_text()


def test_our_own_scripts_keep_to_the_policy() -> None:
    for name in ("app.js", "market.js"):
        text = (VENDOR.parent / "static" / name).read_text()
        for forbidden in (
            "eval(",
            "innerHTML",
            "insertAdjacentHTML",
            "new Function",
            "http://",
            "https://",
            "document.write",
        ):
            assert forbidden not in text, (name, forbidden)


def test_htmx_begins_with_its_extension_and_our_listeners_in_place() -> None:
    """It begins when the document is read, and deferred scripts may come after that: a page would never be live."""
    base = (VENDOR.parent / "templates" / "base.html").read_text()
    scripts = re.findall(r"<script( defer)? src=\"{{ static\('([\w.-]+)'\) }}\">", base)
    assert scripts == [("", "app.js"), ("", "htmx.min.js"), ("", "hx-sse.min.js")]
    assert base.index("</main>") < base.index("<script")
