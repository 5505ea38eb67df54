"""Mutants of a module: mutmut's operators, applied at one place each."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

Operator = tuple[type[cst.CSTNode], Callable[[cst.CSTNode], Iterable[cst.CSTNode]]]

_DROPS = {
    "operator_arg_removal", "operator_assignment", "operator_string", "operator_lambda", "operator_dict_arguments",
}  # fmt: skip
_NO_EFFECT = frozenset({"log", "cast", "assert_never"})
"""Calls whose arguments no test need hold."""
_CHECKS_OF_PYTHON = frozenset({"strict", "slots", "kw_only", "frozen"})
"""Arguments that guard against errors of the program, and change nothing in one that is right."""


@dataclass(frozen=True, slots=True)
class Mutant:
    path: str
    scope: str
    """The function that it is in, with its class; empty at the level of the module."""
    operator: str
    """Of mutmut."""
    nth: int
    """Of those in its scope that read the same."""
    was: str
    becomes: str
    line: int
    node: cst.CSTNode
    changed: cst.CSTNode

    @property
    def id(self) -> str:
        """The same as long as its own place reads the same, despite edits elsewhere."""
        return _digest(self.path, self.scope, self.operator, self.was, self.becomes, str(self.nth))[:10]

    @property
    def is_drop(self) -> bool:
        return self.operator in _DROPS

    def is_drawn(self, seed: int, logic_share: float, drop_share: float) -> bool:
        """Each is drawn by itself, so no edit elsewhere changes who is."""
        share = drop_share if self.is_drop else logic_share
        return int(_digest(str(seed), self.id)[:12], 16) < share * 16**12


class Source:
    """One file, and all mutants of it."""

    def __init__(self, path: str, code: str) -> None:
        self._code = code
        wrapper = MetadataWrapper(cst.parse_module(code))
        self._module = wrapper.module
        places = _Places(path)
        wrapper.visit(places)
        self.mutants: Sequence[Mutant] = tuple(places.found)

    def mutated(self, mutant: Mutant) -> str | None:
        """The file's text with this error; None if that is no Python."""
        changed = self._module.deep_replace(mutant.node, mutant.changed)
        assert isinstance(changed, cst.Module)
        try:
            compile(changed.code, mutant.path, "exec")
        except SyntaxError:
            return None
        return changed.code

    def difference(self, mutant: Mutant) -> str:
        """The lines that differ, as a patch without its head."""
        changed = self.mutated(mutant) or self._code
        lines = unified_diff(self._code.splitlines(), changed.splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@")


class _Places(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.found: list[Mutant] = []
        self._path = path
        self._scope: list[str] = []
        self._depth = 0
        """Of functions. Dropping a value outside of them mostly ends the import."""
        self._same: Counter[tuple[str, ...]] = Counter()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_skipped(node):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._scope.append(node.name.value)
            self._depth += isinstance(node, cst.FunctionDef)
        for operator, changed in _changes(node):
            if operator not in _DROPS or self._depth:
                self._add(node, operator, changed)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef) and not _is_skipped(original_node):
            self._scope.pop()
            self._depth -= isinstance(original_node, cst.FunctionDef)

    def _add(self, node: cst.CSTNode, operator: str, changed: cst.CSTNode) -> None:
        scope, was, becomes = ".".join(self._scope), _text(node), _text(changed)
        key = (scope, operator, was, becomes)
        line = self.get_metadata(PositionProvider, node).start.line
        self.found.append(Mutant(self._path, scope, operator, self._same[key], was, becomes, line, node, changed))
        self._same[key] += 1


def _changes(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    for kind, operator in mutators.mutation_operators:
        if isinstance(node, kind):
            for changed in operator(node):
                yield operator.__name__, changed


def _is_skipped(node: cst.CSTNode) -> bool:
    """Annotations, imports and decorators; texts for people; what only checks the program itself."""
    match node:
        case (
            cst.Annotation() | cst.Import() | cst.ImportFrom() | cst.Decorator() | cst.FormattedString() | cst.Assert()
        ):
            return True
        case cst.SimpleString(value=text):
            return " " in text or text.startswith(('"""', "'''"))
        case cst.Call(func=cst.Name(value=name)) | cst.Call(func=cst.Attribute(value=cst.Name(value=name))):
            return name in _NO_EFFECT
        case cst.Arg(keyword=cst.Name(value=name)):
            return name in _CHECKS_OF_PYTHON
        case _:
            return False


def _text(node: cst.CSTNode) -> str:
    return cst.Module(body=()).code_for_node(node).strip()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
