"""Lines of keys in TOML, for error messages, and text that cannot be read at all."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.config.toml_document import nearest, read_toml
from autopilot.domain.errors import UserError

TEXT = '''\
a = 1
long = """
fake = 1
[fake]
"""
[one.two]   # comment
"quoted key" = 2
b.c = 3
[ three ]
d = { e = 1 }
'''


def test_keys_are_found_on_their_lines() -> None:
    document = read_toml(TEXT, "f.toml")
    assert document.lines == {
        ("a",): 1,
        ("long",): 2,
        ("one", "two"): 6,
        ("one", "two", "quoted key"): 7,
        ("one", "two", "b"): 8,
        ("one", "two", "b", "c"): 8,
        ("three",): 9,
        ("three", "d"): 10,
    }


def test_what_has_no_line_is_placed_at_the_nearest_table() -> None:
    document = read_toml(TEXT, "f.toml")
    assert document.place(("three", "d", "e")) == "f.toml:10"
    assert document.place(("none",)) == "f.toml"


def test_the_nearest_word_is_offered_or_all() -> None:
    assert nearest("buget", ["budget", "deadline"]) == 'did you mean "budget"?'
    assert nearest("zzz", ["b", "a"]) == "known here: a, b"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = " + "[" * 2_000 + "]" * 2_000, id="brackets"),
        pytest.param("x = " + "[" * 2_000, id="brackets-left-open"),
        pytest.param("x = 1e99999999999999999999999", id="exponent"),
        pytest.param("x = " + "9" * 5_000, id="digits"),
        pytest.param("x = '\ud800'", id="half-a-character"),
        pytest.param("# \udcff\n", id="half-a-character-in-a-comment"),
    ],
)
def test_what_no_reader_can_take_in_is_a_user_s_error(text: str) -> None:
    with pytest.raises(UserError, match=r"^f\.toml: cannot be parsed"):
        read_toml(text, "f.toml")


def test_what_is_merely_large_is_read() -> None:
    document = read_toml("x = " + "[" * 50 + "]" * 50 + "\ny = 1e300\nz = " + "9" * 300, "f.toml")
    assert (document.values["y"], document.values["z"]) == (Decimal("1e300"), 10**300 - 1)
