"""mypy checks plug-ins and programs of users against the wheel as it is installed: away from the sources."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wheels
from tests.locks import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"^(\w+)\.py:\d+: ((?:error|note): .*)$", re.MULTILINE)
PLUGIN = BLOCK.findall((ROOT / "docs/how-to/write-a-provider.md").read_text())[0]
PROGRAM = BLOCK.findall((ROOT / "docs/how-to/use-it-from-python.md").read_text())[0]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the wheel, and the libraries that the tests run with, but no sources."""
    root = tmp_path_factory.mktemp("user")
    return wheels.python_beside(wheels.build(ROOT, root / "dist"), root=root / "venv")


def check(python: Path, directory: Path, sources: dict[str, str]) -> dict[str, str]:
    """What ``mypy --strict`` says of each module that it does not accept."""
    for name, text in sources.items():
        (directory / f"{name}.py").write_text(text)
    paths = ("PYTHONPATH", "MYPYPATH")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
        + ["--hide-error-context", f"--cache-dir={python.parents[1] / 'mypy'}", f"--python-executable={python}"]
        + [f"{name}.py" for name in sources],
        cwd=directory,
        env={name: value for name, value in os.environ.items() if name not in paths},
        capture_output=True,
        text=True,
    )
    said: dict[str, str] = {}
    for module, line in SAID.findall(done.stdout):
        said[module] = said.get(module, "") + line + "\n"
    assert (done.returncode, done.stderr) == (int(bool(said)), ""), done.stdout + done.stderr
    return said


def members(class_name: str) -> Iterator[tuple[str, ast.stmt]]:
    """What a class of the example declares for others."""
    (found,) = (each for each in ast.parse(PLUGIN).body if isinstance(each, ast.ClassDef) and each.name == class_name)
    for statement in found.body:
        match statement:
            case ast.AsyncFunctionDef(name=name) | ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                if not name.startswith("_"):
                    yield name, statement


def without(statement: ast.stmt) -> str:
    lines = PLUGIN.splitlines(keepends=True)
    del lines[statement.lineno - 1 : statement.end_lineno]
    return "".join(lines)


def test_the_documented_plugin_passes_and_fails_without_any_part(python: Path, tmp_path: Path) -> None:
    lacking = {f"lacks_{name}": without(part) for name, part in members("RackProvider")}
    assert {"lacks_close", "lacks_name", "lacks_instance"} <= lacking.keys()
    lacking |= {f"plugin_lacks_{name}": without(part) for name, part in members("RackPlugin")}
    derived = {
        f"derived_{name}": text.replace("class RackProvider:", "class RackProvider(Provider):").replace(
            "class RackPlugin:", "class RackPlugin(Plugin):"
        )
        for name, text in lacking.items()
    }
    said = check(python, tmp_path, {"complete": PLUGIN} | lacking | derived)
    assert said.keys() == lacking.keys() | derived.keys()
    for name in lacking:
        assert re.search(
            rf"missing following .* protocol member.*\n.*\b{name.rpartition('lacks_')[2]}$", said[name], re.M
        )


def test_a_program_of_the_client_is_checked(python: Path, tmp_path: Path) -> None:
    wrong = {
        "argument": PROGRAM.replace('client.submit("job.toml")', "client.submit(17)"),
        "keyword": PROGRAM.replace("logs(follow=True)", 'logs(follow="yes")'),
        "result": PROGRAM.replace("done.status, ", "done.status + 1, "),
    }
    said = check(python, tmp_path, {"right": PROGRAM} | wrong)
    assert said.keys() == wrong.keys()
    assert '"submit" of "Client" has incompatible type "int"' in said["argument"]
