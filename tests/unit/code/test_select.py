"""Which files are sent: of Git work trees and of others, with what is refused and what is left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.pack import pack
from autopilot.code.credentials import FILES, PLACES
from autopilot.code.select import Selection, Wanted, select
from autopilot.domain.errors import UserError


def fill(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def git(root: Path, *command: str) -> str:
    settings = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *settings, "-C", str(root), *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def names_of(selection: Selection) -> list[str]:
    return sorted(e.entry.name.removeprefix("checkpoint/") for e in selection.files if e.entry.kind != "dir")


def sent(root: Path, **wanted: Any) -> list[str]:
    return names_of(select(root, Wanted(**wanted)))


def refusal(root: Path, **wanted: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        select(root, Wanted(**wanted))
    return caught.value


# --- in a Git work tree


def test_what_is_tracked_and_what_is_not_ignored_is_sent(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "lib/model.py", "new.py", "data/big.bin", "gone.py")
    (tmp_path / ".gitignore").write_text("data/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "train.py", "lib", "gone.py", ".gitignore")
    git(tmp_path, "commit", "-qm", "begin")
    (tmp_path / "gone.py").unlink()
    found = select(tmp_path, Wanted())
    assert names_of(found) == [".gitignore", "lib/model.py", "new.py", "train.py"]
    assert found.commit == git(tmp_path, "rev-parse", "HEAD")
    assert found.is_dirty


def test_a_clean_tree_has_its_commit(tmp_path: Path) -> None:
    fill(tmp_path, "train.py")
    git(tmp_path, "init", "-q")
    assert select(tmp_path, Wanted()).commit == ""
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "-qm", "begin")
    found = select(tmp_path, Wanted())
    assert (found.commit, found.is_dirty) == (git(tmp_path, "rev-parse", "HEAD"), False)


def test_a_directory_of_a_work_tree_is_sent_alone(tmp_path: Path) -> None:
    fill(tmp_path, "other/x.py", "job/train.py")
    git(tmp_path, "init", "-q")
    assert sent(tmp_path / "job") == ["train.py"]


def test_a_repository_within_it_and_strange_names_are_sent(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "two\nlines", "vendor/lib.py", "vendor/ignored.log")
    (tmp_path / "vendor/.gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q")
    git(tmp_path / "vendor", "init", "-q")
    assert sent(tmp_path) == ["train.py", "two\nlines", "vendor/.gitignore", "vendor/lib.py"]


def test_a_directory_that_its_repository_ignores_is_sent_as_one_without_git(tmp_path: Path) -> None:
    fill(tmp_path, "scratch/train.py", "scratch/__pycache__/x.pyc")
    (tmp_path / ".gitignore").write_text("*\n")
    git(tmp_path, "init", "-q")
    found = select(tmp_path / "scratch", Wanted())
    assert (names_of(found), found.commit) == (["train.py"], "")


def test_what_git_ignores_is_not_sent_even_if_that_is_all_there_is(tmp_path: Path) -> None:
    fill(tmp_path, "job/weights.bin")
    (tmp_path / ".gitignore").write_text("*.bin\n.gitignore\n")
    git(tmp_path, "init", "-q")
    assert "nothing to upload" in refusal(tmp_path).message
    assert "nothing to upload" in refusal(tmp_path / "job").message


def test_without_an_answer_of_git_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "train.py", ".git")  # a .git that is none
    assert "git cannot list" in refusal(tmp_path).message
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in refusal(tmp_path).message


def test_a_hook_s_own_repository_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "a", "a.py")
    fill(tmp_path / "b", "b.py")
    for each in ("a", "b"):
        git(tmp_path / each, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "b/.git"))
    assert sent(tmp_path / "a") == ["a.py"]


# --- elsewhere


def test_without_git_all_but_caches_is_sent(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "conf/a.yaml", "__pycache__/x.pyc", ".venv/bin/python", "sub/node_modules/m.js")
    os.mkfifo(tmp_path / "pipe")
    assert sent(tmp_path) == ["conf/a.yaml", "train.py"]


def test_the_ignore_file_and_exclude_speak_as_git_does(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "data/a.bin", "data/keep.csv", "notes.txt", "deep/notes.txt", "log/x")
    (tmp_path / ".autopilotignore").write_text("# large\ndata/*\n!data/keep.csv\n/notes.txt\n")
    assert sent(tmp_path, exclude=("log/",)) == [".autopilotignore", "data/keep.csv", "deep/notes.txt", "train.py"]


def test_include_brings_back_what_was_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "data/a.bin", "data/b.bin", "__pycache__/x.pyc")
    assert sent(tmp_path, exclude=("data/",), include=("data/b.bin",)) == ["data/b.bin", "train.py"]
    (tmp_path / ".gitignore").write_text("data/\n")
    git(tmp_path, "init", "-q")
    found = sent(tmp_path, include=("data/b.bin", "__pycache__/"), exclude=(".gitignore",))
    assert found == ["__pycache__/x.pyc", "data/b.bin", "train.py"]


def test_what_lies_where_the_checkpoint_will_is_left_out_unless_included(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "ckpt/last.pt", "out/1.pt", "out/log.txt", "data/in.bin")
    found = select(tmp_path, Wanted(apart=("ckpt", "out/*.pt", "data/in.bin", "never")))
    assert names_of(found) == ["out/log.txt", "train.py"]
    assert found.left_out == ["ckpt", "out/*.pt", "data/in.bin"]
    assert "ckpt/last.pt" in sent(tmp_path, apart=("ckpt",), include=("ckpt/",))


# --- what is refused


@pytest.mark.parametrize(
    "name",
    [
        *(".env", "deep/.env.local", "id_rsa", "keys/id_ed25519", "tls/server.pem", ".netrc", "sub/.aws/credentials"),
        *(
            ".docker/config.json",
            "a/.docker/config.json",
            ".ssh/config",
            ".kube/config",
            "service-account-prod.json",
            "kaggle.json",
            "ID_RSA",
        ),
    ],
)
def test_what_looks_like_a_credential_is_refused_by_name_unless_included(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "train.py", name)
    problem = refusal(tmp_path)
    assert name in problem.message
    assert f'include = ["{name}"]' in problem.hint
    assert name in sent(tmp_path, include=(name,))
    assert name not in sent(tmp_path, exclude=(name,))
    top = name.split("/")[0]
    for pattern in ("*", "**", f"{top}/**", f"{top}/") if "/" in name else ("*", "**"):
        assert name in refusal(tmp_path, include=(pattern,)).message, f"{pattern} names no file"


@pytest.mark.parametrize(
    "name", [".env.example", "id_rsa.pub", "id_map.py", "id_cards/a.py", "environment.yml", "config.json"]
)
def test_what_only_sounds_like_one_is_sent(tmp_path: Path, name: str) -> None:
    assert sent(fill(tmp_path, name)) == [name]


def test_an_ignored_credential_is_no_obstacle(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", ".env")
    (tmp_path / ".autopilotignore").write_text(".env\n")
    assert sent(tmp_path) == [".autopilotignore", "train.py"]


def test_links_that_lead_out_are_refused_unless_included(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", "w.bin", "deep/x")
    job = fill(tmp_path / "job", "train.py", "lib/a.py")
    (job / "alias.py").symlink_to("train.py")
    (job / "here").symlink_to(job / "lib")  # absolute, and inside all the same
    (job / "loop").symlink_to("loop")
    (job / "data").symlink_to("../elsewhere")
    (job / "passwd").symlink_to("/etc/passwd")
    problem = refusal(job)
    assert problem.message.endswith("or are broken: data, loop, passwd")
    assert sent(job, exclude=("data", "loop", "passwd")) == ["alias.py", "here", "lib/a.py", "train.py"]
    followed = select(job, Wanted(include=("data",), exclude=("loop", "passwd")))
    assert {"data/w.bin", "data/deep/x"} < set(names_of(followed))
    assert pack(followed.files).contents.size == len("train.pylib/a.pyw.bindeep/x")
    fill(tmp_path / "elsewhere", ".netrc")
    assert "data/.netrc" in refusal(job, include=("data",), exclude=("loop", "passwd")).message
    assert "passwd" in refusal(job, include=("data", "*"), exclude=("loop",)).message
    assert "loop" in refusal(job, include=("loop",), exclude=("data", "passwd")).message


def test_too_much_is_refused_with_the_largest_and_a_way_out(tmp_path: Path) -> None:
    fill(tmp_path, "train.py")
    (tmp_path / "data").mkdir()
    for name, size in {"data/a.bin": 3_000_000, "data/b.bin": 2_000_000, "w.pt": 4_000_000, "small": 900_000}.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    problem = refusal(tmp_path, most_bytes=1_000_000)
    lines = problem.message.splitlines()
    assert lines[0].endswith("is 9.9 MB in 5 files; the limit is 1 MB. The largest:")
    assert [line.split()[-1] for line in lines[1:]] == [
        "data/",
        "w.pt",
        "data/a.bin",
        "data/b.bin",
        "small",
        "train.py",
    ]
    assert problem.hint.startswith('omit them: exclude = ["/data/", "/w.pt"] in [code]')
    assert sent(tmp_path, most_bytes=1_000_000, exclude=("/data/", "/w.pt")) == ["small", "train.py"]


def test_a_sparse_file_counts_as_what_would_be_sent_and_is_not_read(tmp_path: Path) -> None:
    fill(tmp_path, "train.py")
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    assert "1,100 GB in 2 files" in refusal(tmp_path).message


@pytest.mark.parametrize("root", ["missing", "file"])
def test_a_path_that_is_no_directory_is_refused(tmp_path: Path, root: str) -> None:
    fill(tmp_path, "file")
    assert "is not a directory" in refusal(tmp_path / root).message


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    assert "nothing to upload" in refusal(tmp_path).message


def test_a_pattern_that_is_none_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    assert "code.exclude" in refusal(tmp_path, exclude=("!",)).message


def test_the_job_file_s_page_names_every_pattern() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/job-file.md").read_text()
    names = [pattern.removeprefix("!").removeprefix("**/") for pattern in (*FILES, *PLACES)]
    assert [name for name in names if f"`{name}`" not in page] == []
