"""Programs that save, each in another way: a generator that writes and yields the seconds until it writes on.

Each has a reader, which fails for what is torn. As a process: ``python -m tests.savers NAME PATH SPEED SEED``.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import sqlite3
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

Steps = Iterator[float]


class Torn(Exception):
    """What was restored cannot be gone on from."""


class Saver(NamedTuple):
    save: Callable[[Path, random.Random, int], Steps]
    """From the step after the one that it is given, again and again."""
    read: Callable[[Path], int]
    """The newest step, 0 if there is none. Raises ``Torn``."""
    pattern: str = ""
    """Beneath the path, if not all of it is saved."""
    is_ever_whole: bool = True


def content(step: int, size: int = 40_000) -> bytes:
    return f"{step:08}".encode() * (size // 8)


def step_of(path: Path, size: int = 40_000) -> int:
    data = path.read_bytes() if path.exists() else b""
    if len(data) != size or data != data[:8] * (size // 8):
        raise Torn(f"{path.name} has {len(data)} bytes")
    return int(data[:8])


def in_place(path: Path, step: int, seconds: float) -> Steps:
    data = content(step)
    with path.open("wb", buffering=0) as file:
        for at in range(0, len(data), 4_000):
            file.write(data[at : at + 4_000])
            yield seconds / 10


def one(path: Path) -> int:
    return step_of(path) if path.exists() else 0


# -- one file


def save_in_place(path: Path, rng: random.Random, step: int) -> Steps:
    while True:
        step += 1
        yield from in_place(path, step, 6)
        yield rng.uniform(5, 60)


def save_renamed(path: Path, rng: random.Random, step: int) -> Steps:
    while True:
        step += 1
        yield from in_place(path.with_suffix(".tmp"), step, rng.uniform(1, 6))
        path.with_suffix(".tmp").replace(path)
        yield rng.uniform(0.5, 20)


def save_slowly(path: Path, rng: random.Random, step: int) -> Steps:
    while True:
        step += 1
        yield from in_place(path, step, 50)
        yield rng.uniform(10, 60)


def save_mapped(path: Path, rng: random.Random, step: int) -> Steps:
    while True:
        step += 1
        data = content(step, 40_960)
        if not path.exists():
            path.with_suffix(".tmp").write_bytes(bytes(len(data)))
            path.with_suffix(".tmp").replace(path)
        file = os.open(path, os.O_RDWR)
        with mmap.mmap(file, len(data)) as memory:
            os.close(file)
            for at in range(0, len(data), 4096):
                memory[at : at + 4096] = data[at : at + 4096]
                yield 0.6
        yield rng.uniform(5, 40)


def read_mapped(path: Path) -> int:
    return step_of(path, 40_960) if path.exists() else 0


def save_sparse(path: Path, rng: random.Random, step: int) -> Steps:
    while True:
        step += 1
        with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
            file.truncate(64 << 20)
            for at in range(0, 64 << 20, 16 << 20):
                file.seek(at)
                file.write(b"%08d" % step)
                yield 1.5
        yield rng.uniform(5, 40)


def read_sparse(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as file:
        seen = set()
        for at in range(0, 64 << 20, 16 << 20):
            file.seek(at)
            seen.add(file.read(8))
    if len(seen) != 1:
        raise Torn(f"sparse: {seen}")
    return int(seen.pop())


def save_appended(path: Path, rng: random.Random, step: int) -> Steps:
    with path.open("ab", buffering=0) as file:
        while True:
            step += 1
            file.write(b'{"step": %08d}\n' % step)
            yield rng.uniform(0.5, 5)


def read_appended(path: Path) -> int:
    lines = path.read_bytes().splitlines() if path.exists() else []
    if any(len(line) != 18 for line in lines[:-1]):
        raise Torn("a line within is torn")
    return sum(len(line) == 18 for line in lines)


def save_tar(path: Path, rng: random.Random, step: int) -> Steps:
    """Members are added in place, as ``tar --append`` does it."""
    while True:
        step += 1
        data = content(step)
        with path.open("r+b" if path.exists() else "w+b", buffering=0) as file:
            end = 0
            if path.stat().st_size:
                with tarfile.open(path) as tar:
                    last = tar.getmembers()[-1]
                    end = last.offset_data + -(-last.size // 512) * 512
            info = tarfile.TarInfo(f"{step:08}")
            info.size = len(data)
            file.seek(end)
            file.write(info.tobuf())
            for at in range(0, len(data), 8_000):
                yield 1.0
                file.write(data[at : at + 8_000])
            file.write(bytes(-len(data) % 512 + 1024))
        yield rng.uniform(5, 40)


def read_tar(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        with tarfile.open(path) as tar:
            members = tar.getmembers()
            for member in members:
                file = tar.extractfile(member)
                if file is None or len(file.read()) != member.size:
                    raise Torn("a member is short")
    except (tarfile.TarError, EOFError) as error:
        raise Torn(str(error)) from error
    return len(members)


def save_database(path: Path, rng: random.Random, step: int) -> Steps:
    path.mkdir(parents=True, exist_ok=True)
    base = sqlite3.connect(path / "state.db", isolation_level=None)
    base.execute("create table if not exists a (step int, data blob)")
    base.execute("create table if not exists b (step int, data blob)")
    while True:
        step += 1
        base.execute("begin immediate")
        base.execute("insert into a values (?, ?)", (step, content(step)))
        yield 3
        base.execute("insert into b values (?, ?)", (step, content(step)))
        base.execute("commit")
        yield rng.uniform(5, 30)


def read_database(path: Path) -> int:
    if not (path / "state.db").exists():
        return 0
    try:
        base = sqlite3.connect(path / "state.db")
        if base.execute("pragma integrity_check").fetchone() != ("ok",):
            raise Torn("the database is malformed")
        names = {name for (name,) in base.execute("select name from sqlite_master where type = 'table'")}
        counts = [base.execute(f"select count(*) from {name}").fetchone()[0] for name in sorted(names)]
        base.close()
    except sqlite3.DatabaseError as error:
        raise Torn(str(error)) from error
    if len({*counts, 0}) > 2:
        raise Torn(f"tables of {counts}")
    return max(counts, default=0)


# -- files that belong together


def save_two(path: Path, rng: random.Random, step: int) -> Steps:
    path.mkdir(parents=True, exist_ok=True)
    while True:
        step += 1
        yield from in_place(path / "model", step, 6)
        yield rng.uniform(2, 20)
        yield from in_place(path / "optimizer", step, 6)
        yield rng.uniform(8, 90)


def save_restlessly(path: Path, rng: random.Random, step: int) -> Steps:
    path.mkdir(parents=True, exist_ok=True)
    while True:
        step += 1
        for name in ("model", "optimizer"):
            yield from in_place(path / name, step, 2)
            yield 0.5


def read_two(path: Path) -> int:
    files = [path / "model", path / "optimizer"]
    if not any(file.exists() for file in files):
        return 0
    steps = {step_of(file) for file in files}
    if len(steps) != 1:
        raise Torn(f"of two steps: {steps}")
    return steps.pop()


# -- a directory for each step


def newest(path: Path) -> Path | None:
    return max(path.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]), default=None)


def save_directories(path: Path, rng: random.Random, step: int) -> Steps:
    """D1: with pauses within a save that are longer than the one between two saves."""
    path.mkdir(parents=True, exist_ok=True)
    while True:
        yield 8
        step += 1
        place = path / f"checkpoint-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        yield from in_place(place / "model.safetensors", step, 6)
        yield 25
        yield from in_place(place / "optimizer.pt", step, 12)
        yield 25
        (place / "trainer_state.json").write_text(json.dumps({"step": step}))


def read_directories(path: Path) -> int:
    place = newest(path)
    if place is None:
        return 0
    try:
        step = int(json.loads((place / "trainer_state.json").read_text())["step"])
    except (OSError, ValueError) as error:
        raise Torn(f"{place.name}: {error}") from error
    if {step_of(place / "model.safetensors"), step_of(place / "optimizer.pt")} != {step}:
        raise Torn(f"{place.name} is of two steps")
    return step


def save_rotating(path: Path, rng: random.Random, step: int) -> Steps:
    """``save_total_limit = 2``, beside a log and what the Trainer keeps loose."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / "train.log").open("a") as log:
        while True:
            yield rng.uniform(10, 60)
            step += 1
            place = path / f"checkpoint-{step}"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for name in ("model.safetensors", "optimizer.pt"):
                yield from in_place(place / name, step, 5)
                print(step, name, file=log, flush=True)
                yield rng.uniform(0, 10)
            (place / "trainer_state.json").write_text(json.dumps({"step": step}))
            yield from remove_all_but(path, 2)


def remove_all_but(path: Path, count: int) -> Steps:
    places = sorted(path.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]))
    for old in places[:-count]:
        for file in sorted(old.iterdir()):
            file.unlink()
            yield 0.5
        old.rmdir()


def save_shards(path: Path, rng: random.Random, step: int) -> Steps:
    path.mkdir(parents=True, exist_ok=True)
    while True:
        yield rng.uniform(10, 60)
        step += 1
        place = path / f"checkpoint-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for shard in range(1, 5):
            yield from in_place(place / f"model-{shard:05}-of-00004.safetensors", step, 3)
            yield rng.uniform(0, 8)
        (place / "model.safetensors.index.json").write_text("{}")
        yield from remove_all_but(path, 3)


def read_shards(path: Path) -> int:
    place = newest(path)
    if place is None:
        return 0
    if not (place / "model.safetensors.index.json").exists():
        raise Torn(f"{place.name} has no index")
    steps = {step_of(place / f"model-{shard:05}-of-00004.safetensors") for shard in range(1, 5)}
    if len(steps) != 1:
        raise Torn(f"{place.name} is of {steps}")
    return steps.pop()


def save_linked(path: Path, rng: random.Random, step: int) -> Steps:
    """A link names the newest whole one, as do the ``latest`` files of trainers on many machines."""
    path.mkdir(parents=True, exist_ok=True)
    while True:
        yield rng.uniform(5, 60)
        step += 1
        place = path / f"checkpoint-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        yield from in_place(place / "model", step, 5)
        yield rng.uniform(1, 10)
        yield from in_place(place / "optimizer", step, 5)
        (path / ".latest").symlink_to(place.name)
        (path / ".latest").replace(path / "latest")
        (path / ".name").write_text(place.name)
        (path / ".name").replace(path / "latest.txt")


def read_linked(path: Path) -> int:
    link, text = path / "latest", path / "latest.txt"
    if not (link.is_symlink() or text.exists()):
        return 0
    if not text.exists():
        raise Torn("one word of the newest is missing")
    return min(read_two(path / text.read_text()), read_two(link)) or no_step(path)


def no_step(path: Path) -> int:
    raise Torn(f"{path.name}: what is named is not there")


def save_and_delete(path: Path, rng: random.Random, step: int) -> Steps:
    """The one before goes, file by file, while the new one may be read."""
    path.mkdir(parents=True, exist_ok=True)
    while True:
        step += 1
        place = path / f"checkpoint-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name in ("model", "optimizer"):
            yield from in_place(place / name, step, 2)
        yield from remove_all_but(path, 1)
        yield rng.uniform(5, 80)


def read_deleted(path: Path) -> int:
    place = newest(path)
    return 0 if place is None else read_two(place) or no_step(place)


SAVERS = {
    "in-place": Saver(save_in_place, one),
    "rename": Saver(save_renamed, one),
    "two-files": Saver(save_two, read_two),
    "directories": Saver(save_directories, read_directories),
    "append": Saver(save_appended, read_appended),
    "mmap": Saver(save_mapped, read_mapped),
    "sparse": Saver(save_sparse, read_sparse),
    "links": Saver(save_linked, read_linked),
    "delete-while-read": Saver(save_and_delete, read_deleted),
    "slow-writer": Saver(save_slowly, one),
    "never-quiet": Saver(save_restlessly, read_two, is_ever_whole=False),
    "shards": Saver(save_shards, read_shards),
    "rotating": Saver(save_rotating, read_directories, pattern="checkpoint-*"),
    "tar": Saver(save_tar, read_tar),
    "database": Saver(save_database, read_database),
}
"""By the way in which they write."""


def main() -> None:
    name, path, speed, seed = sys.argv[1:]
    saver = SAVERS[name]
    step = saver.read(Path(path))
    print("began from", step, flush=True)
    for seconds in saver.save(Path(path), random.Random(seed), step):
        time.sleep(seconds / float(speed))


if __name__ == "__main__":
    main()
