"""Whether a program counts on a save at SIGTERM, by its source: a handler that only ends it does not. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

ASKS = re.compile(r"\bshould_save\(|\bfrom autopilot import (?:\w+, )*training\b|\bautopilot\.training\b")
"""``should_save`` without a call is the Trainer's own."""
SETTERS = ("signal", "add_signal_handler")
ENDS = {
    *("exit", "_exit", "abort", "kill", "killpg", "terminate", "quit", "SystemExit", "KeyboardInterrupt"),
    *("print", "info", "warning", "error", "debug", "log", "write", "flush", "close", "finish", "cancel", "shutdown"),
    *("destroy_process_group", "cleanup", "getpid", "getpgrp", "getpgid", "Signals", "str", "format"),
}
"""Calls of handlers that end a program, say so, and leave what it has open."""


def counts_on_term(sources: Iterable[str]) -> bool:
    return any(ASKS.search(text) is not None or has_saving_handler(text) for text in sources)


def has_saving_handler(text: str) -> bool:
    """What is no Python, or cannot be read, has none that can be found."""
    if "SIGTERM" not in text:
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return any(does_more(handler, functions) for handler in find_handlers(tree))


def find_handlers(tree: ast.AST) -> Iterator[ast.expr]:
    """What is given to signal.signal and to a loop's add_signal_handler for SIGTERM, also in a loop over signals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in SETTERS and len(node.args) > 1:
            signal = name_of(node.args[0])
            if signal == "SIGTERM" or not signal.startswith("SIG"):
                yield node.args[1]


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def does_more(handler: ast.expr, functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> bool:
    """Than to end the program. One whose code is not there may do anything."""
    name = name_of(handler)
    if name in ("SIG_IGN", "SIG_DFL", *ENDS):
        return False
    body: ast.AST | None = handler if isinstance(handler, ast.Lambda) else functions.get(name)
    if body is None:
        return True
    calls = [name_of(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)]
    sets = any(isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) for node in ast.walk(body))
    return sets or any(call not in ENDS for call in calls)
