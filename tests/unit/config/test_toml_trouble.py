"""Each way of not writing TOML has a hint of its own; what Windows writes is read."""

from __future__ import annotations

import pytest

from autopilot.config.toml_document import read_toml
from autopilot.config.toml_trouble import QUOTE, decode
from autopilot.domain.errors import UserError


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("name: bert\nrun: train\n", "YAML"),
        ("# a job\n---\nname: bert\n", "YAML"),
        ("- name\n", "YAML"),
        ('{"name": "bert"}', "JSON"),
        ('{\n  "name": "bert"\n}', "JSON"),
        ('[\n  {"name": "bert"}\n]', "JSON"),
        ("name = \u201cbert\u201d\n", "curly quotes"),
        ('name = "a"\nname = "b"\n', "keep one of its lines"),
        ("x = {a = 1, a = 2}\n", "keep one of"),
        ("[code]\n[work]\n[code]\n", "opened once"),
        ('path = "C:\\data"\n', "backslash"),
        ('name = "bert\n', "close the text on its line"),
        ('run = """\npython train.py\n', "closing quote"),
        ("paths = [1,\n2,\n", "closing ]"),
        ("x = { a = 1\n", "closing }"),
        ("[code\n", "[name]"),
        ('name "bert"\n', 'key = "value"'),
        ("name = 'it's'\n", "other kind of quotes"),
        ("flag = True\n", "lower case"),
        ("flag = null\n", "leave the key out"),
        ("!name = 1\n", "key = value"),
        ("name = bert\n", QUOTE),
    ],
)
def test_each_mistake_has_its_own_hint(text: str, hint: str) -> None:
    with pytest.raises(UserError, match="not valid TOML") as error:
        read_toml(text, "job.toml")
    assert hint in str(error.value.hint)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_from_windows_is_read(encoding: str) -> None:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    text = decode(f'{mark}name = "bért"\r\n[code]\r\n'.encode(encoding))
    assert read_toml(text, "job.toml").values == {"name": "bért", "code": {}}
    assert read_toml(f"\ufeff{text}", "job.toml").lines == {("name",): 1, ("code",): 2}


@pytest.mark.parametrize("raw", [b"\x80\x81", b"\xff\xfe\x00"])
def test_what_is_no_text_is_refused(raw: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        decode(raw)
