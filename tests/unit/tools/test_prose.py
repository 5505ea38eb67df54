from __future__ import annotations

from pathlib import Path

import pytest

from tools.prose import LONG, count_idioms, docstrings, folders, measure, sentences

PAGE = """# A heading of many words that is no sentence at all

It runs a job. It moves
the job when that is cheaper!

```sh
make test    # not. prose. here.
```

| a table | is no prose. |
|---|---|

- The first item. It has two sentences.
- See [the second](x.md#y), at $0.31 an hour.

<!-- a comment. -->
"""


def test_a_page_is_cut_into_sentences() -> None:
    assert list(sentences(PAGE)) == [
        "It runs a job.",
        "It moves the job when that is cheaper!",
        "The first item.",
        "It has two sentences.",
        "See the second, at $0.31 an hour.",
    ]


def test_mean_and_share() -> None:
    found = measure(["One two three. Four.", "word " * LONG + "more."])
    assert (found.sentences, found.words, found.long) == (3, LONG + 5, 1)
    assert found.mean == pytest.approx(40 / 3)
    assert found.share_long == pytest.approx(1 / 3)


def test_no_prose_is_not_an_error() -> None:
    assert (measure([]).mean, measure([]).share_long) == (0, 0)


def test_pages_are_grouped_by_folder(tmp_path: Path) -> None:
    for name in ("README.md", "docs/a.md", "docs/how-to/b.md", "docs/how-to/c.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("One.")
    counts = {folder: len(pages) for folder, pages in folders(tmp_path).items()}
    assert counts == {".": 1, "docs": 1, "docs/how-to": 2}


def test_idioms_are_counted_over_line_ends() -> None:
    found = count_idioms(["Nobody goes\non; it is told what stands. They go on.", "Reckoned anew, reckoning."])
    assert {name: count for name, count in found.items() if count} == {
        "nobody": 1,
        "stands": 1,
        "anew": 1,
        "reckon": 2,
        "is told": 1,
        "goes on": 2,
    }


def test_docstrings_are_those_of_modules_functions_and_fields() -> None:
    source = '"""Of the module."""\nN = 1\n"""Of a value."""\ndef f():\n    """Of a function."""\n    return "no"\n'
    assert sorted(docstrings(source)) == ["Of a function.", "Of a value.", "Of the module."]
