from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.mutants.kept import Code, Line, append, is_enough, read, reasons, report
from tools.mutants.making import Mutant, Source
from tools.mutants.running import Broken, Copy, Stage, verdict
from tools.mutants.table import MODULES, ROOT, Module

pytestmark = pytest.mark.slow

TOY = '''
from dataclasses import dataclass

@dataclass(frozen=True)
class Fare:
    base: int = 3

def price(km: int, night: bool) -> int:
    """What ``km`` cost."""
    if km > 10:
        raise ValueError("too far to go")
    log.info("price", km=km)
    return (km + 1) * (2 if night else 1)

def is_free(km: int) -> bool:
    return km == 0
'''
CODE = Code("c1", "t1")


def _mutant(source: Source, becomes: str) -> Mutant:
    return next(one for one in source.mutants if one.becomes == becomes)


# -- making


def test_a_mutant_is_one_error_in_one_place() -> None:
    source = Source("toy.py", TOY)
    assert source.difference(_mutant(source, ">= 10")) == "-    if km > 10:\n+    if km >= 10:"


def test_texts_annotations_decorators_and_logs_are_left_alone() -> None:
    mutants = Source("toy.py", TOY).mutants
    assert mutants
    for text in ("too far", "frozen", "info", "cost.", "dataclass("):
        assert not any(text in one.was for one in mutants if one.operator == "operator_string"), text
        assert not any(text in one.was for one in mutants if one.operator == "operator_name"), text
    assert not any(one.was.startswith("log.") for one in mutants)


def test_an_edit_elsewhere_changes_neither_who_is_drawn_nor_its_name() -> None:
    edited = TOY.replace("def price", "def more(km: int) -> int:\n    return km + 5\n\n\ndef price").replace(
        "= 3", "= 4"
    )
    before = {one.id: one for one in Source("toy.py", TOY).mutants if one.scope in ("price", "is_free")}
    after = {one.id: one for one in Source("toy.py", edited).mutants if one.scope in ("price", "is_free")}
    assert before.keys() == after.keys()
    assert {one for one in before if before[one].is_drawn(1, 0.5, 0.5)} == {
        one for one in after if after[one].is_drawn(1, 0.5, 0.5)
    }
    assert {before[one].line + 4 for one in before} == {after[one].line for one in after}


def test_the_shares_are_kept_and_another_seed_draws_others() -> None:
    mutants = Source("autopilot/policy/guard.py", (ROOT / "autopilot/policy/guard.py").read_text()).mutants
    assert not any(one.is_drawn(1, 0, 0) for one in mutants)
    assert all(one.is_drawn(1, 1, 1) for one in mutants)
    first, second = ({one.id for one in mutants if one.is_drawn(seed, 0.3, 0.3)} for seed in (1, 2))
    assert len(first) == pytest.approx(0.3 * len(mutants), rel=0.25)
    assert first != second
    assert {one.is_drop for one in mutants if one.is_drawn(1, 0.3, 0)} == {False}


def test_names_are_unique() -> None:
    mutants = Source("autopilot/policy/guard.py", (ROOT / "autopilot/policy/guard.py").read_text()).mutants
    assert len({one.id for one in mutants}) == len(mutants)


# -- the table


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path)
def test_what_a_module_names_is_there(module: Module) -> None:
    for name in (*module.own, *module.wider):
        assert (ROOT / name).exists(), name
    mutants = Source(module.path, (ROOT / module.path).read_text()).mutants
    for scope in module.scopes or ("",):
        assert any(replace(module, scopes=(scope,) if scope else ()).means(one.scope) for one in mutants), scope


# -- running

_OWN = "from toy import price\n\ndef test_price(): assert price(4, False) == 5\n"
_WIDER = """import pytest
from toy import price

@pytest.mark.parametrize("km", [pytest.param(4, id="by night - not [far]")])
def test_night(km): assert price(km, True) == 10
"""
OWN, WIDER = Stage("own", ("test_own.py",)), Stage("wider", ("test_wider.py",))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer to load than the toy to be tested
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    (tmp_path / "toy.py").write_text("def price(km, night):\n    return (km + 1) * (2 if night and km < 90 else 1)\n")
    (tmp_path / "test_own.py").write_text(_OWN)
    (tmp_path / "test_wider.py").write_text(_WIDER)
    return Copy(tmp_path)


@pytest.mark.parametrize(
    ("becomes", "expected"),
    [
        ("(km - 1)", ("own", "test_own.py::test_price")),
        ("3", ("wider", "test_wider.py::test_night")),
        ("<= 90", None),
    ],
)
def test_who_notices_an_error(toy: Copy, becomes: str, expected: tuple[str, str] | None) -> None:
    before = (toy.root / "toy.py").read_text()
    source = Source("toy.py", before)
    broken = source.mutated(_mutant(source, becomes))
    assert broken is not None
    assert verdict(toy, "toy.py", broken, [OWN, WIDER]) == expected
    assert (toy.root / "toy.py").read_text() == before


def test_a_module_that_cannot_be_imported_is_noticed(toy: Copy) -> None:
    noticed = verdict(toy, "toy.py", "price = None + 1\n", [OWN])
    assert noticed == ("own", "test_own.py")


def test_a_test_that_fails_by_itself_kills_nothing(toy: Copy) -> None:
    (toy.root / "test_wider.py").write_text("def test_broken(): assert False\n")
    with pytest.raises(Broken, match="test_broken fails without a mutant too"):
        verdict(toy, "toy.py", (toy.root / "toy.py").read_text(), [OWN, WIDER])
    with pytest.raises(Broken, match="mend it first"):
        toy.check(WIDER.tests)


def test_tests_that_are_not_there_are_an_error(toy: Copy) -> None:
    with pytest.raises(Broken, match="pytest answers 4"):
        toy.failure(Stage("own", ("test_gone.py",)))


def test_a_copy_is_of_the_commit_and_of_nothing_else(tmp_path: Path) -> None:
    copy = Copy.of_commit(ROOT, "HEAD", tmp_path / "copy")
    assert (copy.root / "autopilot/policy/guard.py").exists()
    assert not (copy.root / ".venv").exists()


# -- what is kept


def _line(mutant: str, stage: str = "own") -> Line:
    return Line(CODE.tree, CODE.commit, mutant, "toy.py", "price", 7, "-a\n+b", stage, "test" if stage else "", 1.5)


def test_lines_are_kept_by_the_code_that_ran(tmp_path: Path) -> None:
    file = tmp_path / "mutants.jsonl"
    assert read(file, CODE) == {}
    append(file, _line("m1"))
    append(file, replace(_line("m2"), code="other"))
    assert read(file, CODE) == {"m1": _line("m1")}


def test_the_report_counts_and_names_survivors() -> None:
    lines = {"m1": _line("m1"), "m2": _line("m2", ""), "m3": _line("m3")}
    text = list(
        report({"toy.py": ["m1", "m2", "m3", "m4"]}, lines, {"m2": "the same to everybody", "m3": "old", "m9": "gone"})
    )
    assert text[1].split() == ["toy.py", "4", "2", "1", "1", "67%"]
    assert text[2].split()[1:] == ["4", "2", "1", "1", "67%"]
    assert "m2 survived in toy.py:7 price: the same to everybody" in text[3]
    assert text[4] == "-a\n+b"
    assert text[5:] == [
        "\nm3 has a reason to live and is killed by test: take the reason away",
        "\nm9 has a reason to live and is not drawn any more: take the reason away",
    ]


def test_enough_is_two_hundred_all_run_nine_tenths_killed_and_a_reason_for_the_rest() -> None:
    drawn = [f"m{number}" for number in range(200)]
    why = dict.fromkeys(drawn[:20], "equal")
    lines = {mutant: _line(mutant, "" if mutant in why else "own") for mutant in drawn}
    assert is_enough(drawn, lines, why)
    assert not is_enough(drawn, lines, {mutant: why[mutant] for mutant in drawn[1:20]}), "one without a reason"
    assert not is_enough([*drawn, "m200"], lines, why), "one that has not run"
    assert not is_enough(drawn, {**lines, "m20": _line("m20", "")}, {**why, "m20": "equal"}), "more than a tenth lives"
    assert not is_enough(drawn[20:], lines, why), "too few"


def test_every_reason_says_something() -> None:
    assert all(len(why.split()) > 3 for why in reasons().values())
