"""A page as a browser reads it: its elements, and its text."""

from __future__ import annotations

from html.parser import HTMLParser

from aiohttp import web
from aiohttp.test_utils import TestClient
from aiohttp.typedefs import StrOrURL
from yarl import URL

VOID = {"meta", "link", "br", "img", "input", "hr"}


OUTSIDE = ("/static/", "/enter/")


class Browser(TestClient[web.Request, web.Application]):
    """``base``: the path beneath which the pages of its session lie."""

    base = ""

    def make_url(self, path: StrOrURL) -> URL:
        text = str(path)
        return super().make_url(text if text.startswith(OUTSIDE) else self.base + text)


class PageReader(HTMLParser):
    """Raises ``AssertionError`` for elements that are not closed in their order."""

    def __init__(self, body: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        """Each with the names of its attributes."""
        self.links: list[str] = []
        self.pieces: list[str] = []
        self._open: list[str] = []
        self.feed(body)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).replace("\u00a0", " ").split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"closed and not open: {tag}"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name == "href"]
