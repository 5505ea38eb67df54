"""What the index page of the distribution shows: README.md, without links that lead nowhere from there.

In the checkout its links are relative. They become absolute beneath ``source``, the published sources, which
pyproject.toml names. As long as nothing is published there is no such address: then a link is its words alone, and a
picture is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"^!\[[^]]*\]\((?!\w+:)([^)\s]+)\)\n+", re.MULTILINE)
LINK = re.compile(r"\[((?:`[^`]+`|[^]`])+)\]\((?!\w+:)([^)\s]+)\)")


def write_page(readme: str, source: str) -> str:
    """``source``: like ``https://forge.example/me/autopilot/blob/main``; empty: there is none."""
    if source:
        return re.sub(r"\]\((?!\w+:)([^)\s]+)\)", rf"]({source}/\1)", readme)
    return LINK.sub(r"\1", PICTURE.sub("", readme))


class IndexPage(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        source = str(self.config.get("source", ""))
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": write_page(readme, source)}
        pages = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
        metadata["urls"] = {name: f"{source}/{page}" for name, page in pages.items()} if source else {}
