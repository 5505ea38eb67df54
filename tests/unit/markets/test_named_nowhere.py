"""A market's name is in its own directory: no other part of the product contains it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import autopilot
from autopilot.markets.installed import every_market
from tools.references import SERVICE, with_keys

PACKAGE = Path(autopilot.__file__).parent
MARKETS = {name: facts for name, facts in every_market().items() if not facts.is_own}
"""Machines of the user's own have the name of a protocol, which agent, tunnels and commands speak as well."""
NAMES = {
    name.casefold()
    for market, facts in MARKETS.items()
    for name in (market, facts.display_name, facts.key_option.removeprefix("--").removesuffix("-key-file"))
}
NAMED = re.compile("|".join(re.escape(name) for name in sorted(NAMES)))
APART = {
    "providers": "a directory for each",
    "agent": "a rented machine ends itself by a table of its own",
    "host": "the same",
}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """All names and strings of the code, with their lines; neither comments nor docstrings."""
    tree = ast.parse(source)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in told:
            yield from (
                (getattr(node, "lineno", 0), text) for _, text in ast.iter_fields(node) if isinstance(text, str)
            )


def find_named(source: str) -> list[str]:
    return [f"line {line}: {text.strip()[:60]}" for line, text in texts(source) if NAMED.search(text.casefold())]


def test_the_markets_are_known() -> None:
    assert {"vastai", "vast.ai", "vast", "runpod", "mithril", "nebius"} == NAMES


def test_no_part_of_the_product_names_a_market() -> None:
    found = {
        str(path): named
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in APART and (named := find_named(path.read_text()))
    }
    assert found == {}


def test_no_page_names_a_market() -> None:
    own = [path for room in ("static", "templates") for path in sorted((PACKAGE / "web" / room).iterdir())]
    assert own
    assert [str(path) for path in own if NAMED.search(path.read_text().casefold())] == []


@pytest.mark.parametrize(
    "source",
    [
        'TITLES = {"vastai": 1}',
        "def init(runpod_key_file): ...",
        "from autopilot.providers.nebius import plugin",
        'print(f"{place} at Mithril")',
        'def a():\n    """vast.ai"""\n    return "https://console.vast.ai"',
    ],
)
def test_a_market_that_is_named_is_found(source: str) -> None:
    assert len(find_named(source)) == 1


def test_what_only_explains_is_passed_over() -> None:
    assert find_named('"""vast.ai"""\nPRICE = 1  # RunPod\n"""Mithril\'s."""\n') == []


def test_the_unit_hands_over_the_key_of_each_market() -> None:
    """The service manager knows no plug-ins: these lines are written of the markets' facts."""
    unit = SERVICE.read_text()
    assert with_keys(unit) == unit, "python -m tools.references rewrites them"
    assert with_keys(re.sub(r"^(Load|Set)Credential=vastai.*\n", "", unit, flags=re.MULTILINE)) == unit


def test_a_setting_that_is_set_names_no_market() -> None:
    lines = (Path(__file__).parents[3] / "config/autopilot.toml").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#") and NAMED.search(line.casefold())] == []
