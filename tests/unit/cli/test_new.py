"""``autopilot new`` in directories as people have them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.cli.guess import guess
from autopilot.cli.main import run
from autopilot.cli.new import name_of
from autopilot.config.client_file import read_client_file
from autopilot.config.draft import Draft
from autopilot.domain.errors import UserError


def write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


@pytest.mark.parametrize(
    ("files", "command", "setup", "checkpoint"),
    [
        ({"train.py": "x"}, "python train.py", "", ""),
        ({"src/train.py": "", "util.py": ""}, "python src/train.py", "", ""),
        ({"a.py": 'if __name__ == "__main__": pass', "b.py": ""}, "python a.py", "", ""),
        ({"a.py": "__main__", "b.py": "__main__"}, "", "", ""),
        ({"run.sh": "torchrun x", "requirements.txt": "torch"}, "sh run.sh", "pip install -r requirements.txt", ""),
        ({"pyproject.toml": "", "main.py": ""}, "python main.py", "pip install .", ""),
        ({"environment.yml": ""}, "", "conda env update -n base -f environment.yml", ""),
        ({"train.py": 'TrainingArguments(output_dir="out/model", x=1)'}, "python train.py", "", "out/model"),
        ({"train.py": 'parser.add_argument("--output-dir", default="results")'}, "python train.py", "", "results"),
        ({"train.py": 'Trainer(default_root_dir="lightning")'}, "python train.py", "", "lightning"),
        ({"train.py": 'ModelCheckpoint(dirpath="saved/")'}, "python train.py", "", "saved/"),
        ({"train.py": 'torch.save(state, "checkpoints/last.pt")'}, "python train.py", "", "checkpoints"),
        ({"train.py": 'x = "runs/ckpt"'}, "python train.py", "", "runs/ckpt"),
        ({"train.py": 'TrainingArguments(output_dir="/tmp/x")'}, "python train.py", "", ""),
        ({"train.py": 'TrainingArguments(output_dir="../x")'}, "python train.py", "", ""),
        ({"train.py": 'TrainingArguments(output_dir=".")'}, "python train.py", "", ""),
        ({"venv/train.py": "", ".git/main.py": ""}, "", "", ""),
    ],
)
def test_what_a_directory_says(
    tmp_path: Path, files: dict[str, str], command: str, setup: str, checkpoint: str
) -> None:
    found = guess(write(tmp_path, files))
    assert (found.run, found.setup, found.checkpoint) == (command, setup, checkpoint)
    assert len(found.said) == 3


def test_the_file_is_written_once_and_is_a_job_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write(tmp_path, {"train.py": 'save("ckpt/x")', "requirements.txt": ""}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert run(["new", "bert"]) == 0
    written = tomllib.loads(Path("job.toml").read_text())
    assert (written["name"], written["run"], written["code"]) == ("bert", "python train.py", {"path": "."})
    assert written["checkpoint"] == {"path": "ckpt"}
    out = capsys.readouterr().out
    assert "checkpoint: ckpt, which train.py names" in out
    assert run(["new"]) == 2
    assert "job.toml already exists" in capsys.readouterr().err


def test_the_client_s_own_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write(
        tmp_path / "config/autopilot",
        {"client.toml": '[defaults]\nimage = "me/mine:1"\ngpu = "A100"\n[ssh]\nkey = "~/.ssh/id.pub"\n'},
    )
    monkeypatch.chdir(tmp_path)
    assert run(["new", "x"]) == 0
    written = tomllib.loads(Path("job.toml").read_text())
    assert (written["image"], written["resources"]["gpu"]) == ("me/mine:1", "A100")
    assert read_client_file().ssh_key == Path("~/.ssh/id.pub").expanduser()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[default]\n", r"unknown section \[default\]"),
        ("[defaults]\nimages = 'x'\n", "unknown key 'images'"),
        ("[defaults]\nimage = 3\n", "must be a text"),
        ("defaults = 1\n", "unknown section"),
        ("[", "not valid TOML"),
    ],
)
def test_a_wrong_client_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "client.toml"
    file.write_text(text)
    with pytest.raises(UserError) as wrong:
        read_client_file(file)
    assert re.search(message, f"{wrong.value.message} {wrong.value.hint}")


@pytest.mark.parametrize(
    ("directory", "name"), [("my project!", "my-project"), ("..", "job"), ("_x_", "x"), ("é", "job")]
)
def test_a_name_from_a_directory(directory: str, name: str) -> None:
    assert name_of(Path("/home") / directory) == name


any_text = st.text(max_size=20)


@given(
    any_text, any_text, st.dictionaries(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8), max_size=3)
)
def test_any_values_are_read_back_as_they_were(command: str, setup: str, env: dict[str, str]) -> None:
    read = tomllib.loads(Draft("x", command or "y", setup=setup, env=env, outputs=("a", "b c")).write())
    assert (read["run"], read.get("setup", ""), read.get("env", {})) == (command or "y", setup, env)
    assert read["outputs"]["paths"] == ["a", "b c"]


def test_notes_are_comments() -> None:
    text = Draft("x", "y", notes={"work": "one\ntwo"}).write()
    assert "# one\n# two" in text
    assert "work" not in tomllib.loads(text)
