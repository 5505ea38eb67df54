"""Help of commands: each paragraph is as wide as the terminal, wherever the lines of its docstring end."""

from __future__ import annotations

import textwrap
from typing import Any


class HelpFormatter:
    """The library's plain formatter; imported when there is help to print."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        _plain()(_WrappingConsole(console), options, panel)

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        _plain().render_usage(_WrappingConsole(console), options, usage)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        _plain().render_description(_WrappingConsole(console), options, description)


def _plain() -> Any:
    from cyclopts.help.formatters.plain import PlainFormatter

    return PlainFormatter()


class _WrappingConsole:
    def __init__(self, console: Any) -> None:
        self._console = console

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console, name)

    def print(self, text: str = "", **how: Any) -> None:
        self._console.print(wrap_paragraphs(text, self._console.width), **how)


def wrap_paragraphs(text: str, width: int) -> str:
    """Lines after the first of an indented paragraph are indented further."""
    return "\n\n".join(_wrap(paragraph, width) for paragraph in text.split("\n\n"))


def _wrap(paragraph: str, width: int) -> str:
    indent = paragraph[: len(paragraph) - len(paragraph.lstrip(" "))]
    return textwrap.fill(
        " ".join(paragraph.split()),
        width,
        initial_indent=indent,
        subsequent_indent=indent * 3,
        break_long_words=False,
        break_on_hyphens=False,
    )
