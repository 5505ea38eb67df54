"""Lines of keys in TOML, for error messages."""

from __future__ import annotations

from autopilot.config.toml_document import nearest, read_toml

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
