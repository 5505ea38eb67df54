"""What common trainers print of their progress, recognised without the user's doing. Pure.

A line may hold marks: a bar that is at n of m, an epoch n of m, a step n of m. Marks of one name and one total make
a track. Of all tracks one tells how much of the whole is done: the epochs with the steps inside the present one, or
else the outermost bar that does not begin again. Bars that say of themselves that they are something else (a download,
a map over a dataset, a validation) are no tracks.

Forms: tqdm and what is built on it (Hugging Face Trainer, Accelerate, Lightning, torchtune, YOLO), Keras,
"epoch n/m", "step n/m", "iteration n of m", Megatron, fairseq, MMEngine, llama.cpp.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LINE_CHARS = 1000
MAX_TRACKS = 40
"""Of each output; those that were not heard for longest are forgotten."""
SURE_AFTER = 3
"""Claims of a track that speaks of training until it is believed as far as it ever is."""
SURE_AFTER_UNNAMED = 20
"""The same of a bar without a name, in an output without a word of training: it may be anything."""

_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Colours, and steps back."""
_NUMBER = r"\d[\d,]{0,15}(?:\.\d{1,9})?[kMGT]?"
_BAR = re.compile(
    r"^(?P<label>.*?)(?<![\d.])(?P<percent>\d{1,3})%\|(?P<bar>[^|]*)\|\s*"
    r"(?P<n>" + _NUMBER + r")/(?P<m>" + _NUMBER + r")(?P<bytes>i?B)?\s*\[(?P<rest>[^\]]*)\]?"
)
_KERAS_BAR = re.compile(r"^\s*(?P<n>\d{1,15})/(?P<m>\d{1,15})\s*(?:\[[=>. ]*\]|[━=]+| - \d)")
_LLAMA_BAR = re.compile(r"\btrain: \[[=>| ]*\] data=(?P<n>\d{1,15})/(?P<m>\d{1,15})")
_BAR_OF_YOLO = re.compile(r": \d{1,3}% [━─╸]+ (?P<n>\d{1,15})/(?P<m>\d{1,15})\s")
"""Ultralytics' own, of its newer releases; before it was tqdm's."""
_IN_BRACKETS = re.compile(r"^\s*\[(?P<n>\d{1,15})/(?P<m>\d{1,15})\][\s:,]")
_LOOP = re.compile(
    r"\b(?:fold|trial|round|seed)s?\s*[:#]?\s*\[?\d{1,9}\s*(?:/|of|out of)\s*(?P<m>\d{1,9})\b", re.IGNORECASE
)
"""Around trainings: how many there are of them, each from its beginning."""
_YOLO = re.compile(r"^\s*(?P<n>\d{1,15})/(?P<m>\d{1,15})\s+(?:[\d.]+[GM]B?|0)\s+[\d.]+\s")
_RICH = re.compile(r"^\s*Epoch (?P<epoch>\d{1,15})/(?P<last>\d{1,15})\s+[━╸╺]+\s*(?P<n>\d{1,15})/(?P<m>\d{1,15})\s")
_RATIO = re.compile(
    r"(?:^|[^a-z])(?P<word>epochs?|global[ _]?steps?|steps?|iterations?|iters?|batch(?:es)?|updates?)"
    r"(?:\s*\(train\))?\s*[:=#]?\s*[\[(]?\s*(?P<n>\d[\d,]{0,15})\s*(?:/|of|out of)\s*(?P<m>\d[\d,]{0,15})",
    re.IGNORECASE,
)
_EPOCH_AND_STEPS = re.compile(
    r"epoch(?:\s*\(train\))?\s*:?\s*\[?(?P<epoch>\d{1,15})\]?\s*:?\s*[\[(]?\s*(?P<n>\d{1,15})\s*/\s*(?P<m>\d{1,15})",
    re.IGNORECASE,
)
_EPOCH_OF_LABEL = re.compile(r"epoch\s*:?\s*(?P<n>\d{1,15})(?:\s*/\s*(?P<m>\d{1,15}))?", re.IGNORECASE)
_TUNE_LABEL = re.compile(r"^(?P<n>\d{1,15})\|\d+\|")
_SAID_EPOCH = re.compile(r"['\"]epoch['\"]: ['\"]?(?P<epoch>\d+(?:\.\d+)?)")
_SAID_EPOCHS = re.compile(r"\bNum Epochs = (?P<epochs>[\d,]{1,15})")
_SAID_STEPS = re.compile(r"\bTotal optimization steps = (?P<steps>[\d,]{1,15})")
_SAID_EXAMPLES = re.compile(r"\bNum examples = (?P<examples>[\d,]{1,15})")
_SAID_BATCH = re.compile(r"\bTotal train batch size \([^)]*\) = (?P<batch>[\d,]{1,15})")
_BUILD_STEP = re.compile(r"^\s*(?:#\d+ )?\[?step \d+/\d+\]?\s*: [A-Z]{2,}\b", re.IGNORECASE)
_OTHER = re.compile(
    r"download|fetch|upload|\bmap\b|\bmap |filter|token|generat|process|cach|load|shard|extract|unpack|eval|valid"
    r"|\bval\b|\btest|predict|infer|sanity|sav(?:e|ing)|writ|read|resolv|collect|build|compil|instal|quantiz|encod|embed"
    r"|index|convert|creat|scan|transform|warm|images +instances|split|pack|merg|sampl|search|clon|push|pull|copy"
    r"|files?\b|receiv|unzip|checkout|import|prepar|calibrat|profil|benchmark|render|decod|\bdump|freez|export|hash|verif|sort"
    r"|request|captur|likelihood",
    re.IGNORECASE,
)
_OTHER_UNIT = re.compile(
    r"(?:[kMGT]?i?B|examples?|files?|ex|ba|rows?|docs?|tokens?|images?|objects?)/s|s/(?:file|example)s?"
)
_TRAINS = re.compile(r"\bloss\b|train|\blr\b|learning_rate|\bacc(?:uracy)?\b|grad_norm|\bppl\b|v_num", re.IGNORECASE)
_OF_TRAINING = re.compile(r"train|step|epoch|iter|\bfit|optimi[sz]|progress|batch|round|update|learn|gradient", re.I)
_LOSS = re.compile(r"\b(?:train[_ ])?loss\b['\"]?\s*[:=]", re.IGNORECASE)
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class State(NamedTuple):
    """Of a trainer, as it keeps it beside its checkpoint."""

    step: int
    steps: int
    """In all; 1 or more."""
    epochs: float | None
    """In all, a part of one counted as such; None: it does not say."""


class Recognised(NamedTuple):
    form: str
    step: int | None
    fraction: float
    confidence: float
    """0..1: how sure it is that this is the job's own progress."""


class Mark(NamedTuple):
    kind: str
    """``bar``, ``epoch`` or ``step``."""
    name: str
    done: float
    total: float | None
    epoch: int | None = None
    """In which it says to be."""
    trains: bool = False
    """The line speaks of training."""
    is_end: bool = False
    """An epoch that is over, not one that begins."""


class Track:
    """Marks of one name and total."""

    def __init__(self, mark: Mark, now: int) -> None:
        self.kind, self.name, self.total = mark.kind, mark.name, mark.total
        self.first = self.done = mark.done
        self.begun = self.heard = now
        self.marks = self.restarts = self.wraps = 0
        """``wraps``: how often it was full and began again. Lines of several processes may only be out of order."""
        self.epoch: int | None = None
        self.trains = self.is_end = False
        self.add(mark, now)

    def add(self, mark: Mark, now: int) -> None:
        if mark.done < self.done or (mark.epoch is not None and self.epoch is not None and mark.epoch > self.epoch):
            self.restarts += 1
        self.wraps += self.is_full and mark.done < self.done and mark.done <= self.first
        self.marks += mark.done != self.done or self.marks == 0
        self.done, self.heard, self.epoch = mark.done, now, mark.epoch
        self.trains = self.trains or mark.trains
        self.is_end = mark.is_end

    @property
    def share(self) -> float:
        return min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def has_name(self) -> bool:
        return self.name != "bar "

    @property
    def is_full(self) -> bool:
        return self.total is not None and self.done >= self.total


class Trainers:
    """The tracks of one run."""

    def __init__(self) -> None:
        self.tracks: dict[tuple[str, str, float | None], Track] = {}
        self.lines = 0
        self.epochs: float | None = None
        self.steps: float | None = None
        self.epoch: float | None = None
        self.examples: float | None = None
        self.batch: float | None = None
        """Examples of one step."""
        self.saved: State | None = None
        """What the trainer has saved of itself."""
        self.trains = False
        """Whether a line that is no bar has spoken of a loss."""
        self.is_inner = False
        """Whether the training is one of several: nothing tells how much of all of them is done."""

    def feed(self, line: str) -> None:
        """One line of output, or what stood between two carriage returns."""
        self.lines += 1
        line = _TERMINAL.sub("", line)[:LINE_CHARS]
        self._read_words(line)
        for mark in read_marks(line):
            key = mark.kind, mark.name, mark.total
            if key in self.tracks:
                self.tracks[key].add(mark, self.lines)
                continue
            self.tracks[key] = Track(mark, self.lines)
            if len(self.tracks) > MAX_TRACKS:
                del self.tracks[min(self.tracks, key=lambda each: self.tracks[each].heard)]

    def _read_words(self, line: str) -> None:
        """Hugging Face's Trainer: what it says at the beginning, and of each epoch."""
        if found := _SAID_EPOCHS.search(line):
            self.epochs = scale(found["epochs"])
        if found := _SAID_STEPS.search(line):
            self.steps = scale(found["steps"])
        if found := _SAID_EXAMPLES.search(line):
            self.examples = scale(found["examples"])
        if found := _SAID_BATCH.search(line):
            self.batch = scale(found["batch"])
        if found := _SAID_EPOCH.search(line):
            self.epoch = float(found["epoch"])
        self.trains = self.trains or _LOSS.search(line) is not None
        if (found := _LOOP.search(line)) and int(found["m"]) > 1:
            self.is_inner = True

    def read(self) -> Recognised | None:
        """How much of the whole is done; None while nothing tells."""
        if self.is_inner or any(track.kind == "epoch" and track.wraps for track in self.tracks.values()):
            return None
        return self._read_epochs() or self._read_bar() or self._read_dicts() or self._read_saved()

    def _read_epochs(self) -> Recognised | None:
        epochs = [track for track in self.tracks.values() if track.kind == "epoch" and track.total]
        if not epochs:
            return None
        outer = max(epochs, key=lambda track: track.heard)
        inner = self._inner_of(outer)
        of_all, over = count_epochs(outer, inner is not None)
        share = 0.0 if inner is None else inner.share
        fraction = min((over + share) / of_all, 1.0)
        marks = outer.marks + (inner.marks if inner else 0)
        sure = 0.9 if outer.trains or (inner is not None and inner.trains) else 0.6
        step = None if inner is None or inner.total is None else int(over * inner.total + inner.done)
        return Recognised("epochs", step, fraction, grow(sure, marks))

    def _inner_of(self, outer: Track) -> Track | None:
        """The steps within the present epoch: what was heard since the outer's mark, or in the same line."""
        others = [track for track in self.tracks.values() if track.kind != "epoch" and track.total]
        present = [track for track in others if track.heard >= outer.heard]
        return max(present, key=lambda track: (track.trains, track.marks, track.total or 0), default=None)

    def _read_bar(self) -> Recognised | None:
        whole = [track for track in self.tracks.values() if track.kind != "epoch" and track.total]
        lasting = [track for track in whole if not track.restarts]
        if self.saved is not None:  # it says how many steps the whole has
            lasting = [track for track in lasting if track.total == self.saved.steps]
        open_ = [track for track in lasting if not track.is_full] or lasting
        if not open_:
            return None
        best = min(open_, key=lambda track: (not track.trains, track.begun))
        if any(other.trains and other.restarts and not best.trains for other in whole):
            return None  # the training is what begins again, and of how many times is not said
        is_said = best.trains or self.trains
        sure, after = (0.9, SURE_AFTER) if is_said else (0.5, SURE_AFTER if best.has_name else SURE_AFTER_UNNAMED)
        return Recognised(best.kind, int(best.done), best.share, grow(sure, best.marks, after))

    def _read_dicts(self) -> Recognised | None:
        of_all = self._count_epochs()
        if self.epoch is None or not of_all:
            return None
        fraction, steps = min(self.epoch / of_all, 1.0), self.saved.steps if self.saved else self.steps
        return Recognised("trainer", None if steps is None else round(fraction * steps), fraction, 0.9)

    def _count_epochs(self) -> float | None:
        """Epochs in all. A number of steps may end within one, where the Trainer says the next whole number."""
        if self.saved is not None:
            return self.saved.epochs
        if self.steps and self.examples and self.batch:
            exact = self.steps * self.batch / self.examples
            return exact if self.epochs is None or exact < self.epochs else self.epochs
        return self.epochs

    def _read_saved(self) -> Recognised | None:
        if self.saved is None:
            return None
        return Recognised("saved", self.saved.step, min(self.saved.step / self.saved.steps, 1.0), 0.9)


def grow(sure: float, marks: int, after: int = SURE_AFTER) -> float:
    """Less while there are few marks."""
    return sure * min(marks / after, 1.0)


def count_epochs(outer: Track, has_inner: bool) -> tuple[float, float]:
    """(epochs in all, epochs that are over). A bar counts those that are over; a line numbers them from 1 or from 0."""
    m = outer.total or 1.0
    if outer.name.startswith("bar"):
        return m, min(outer.done, m)
    if outer.first == 0:
        of_all = m + 1 if (m + 1) % 5 == 0 else m
        return of_all, outer.done + (1 if outer.is_end and not has_inner else 0)
    return m, outer.done if outer.is_end and not has_inner else max(outer.done - 1, 0.0)


def read_marks(line: str) -> list[Mark]:
    """What the line says; nothing where it says to be of something else than training."""
    if _BUILD_STEP.match(line):
        return []
    trains = _TRAINS.search(line) is not None
    if (yolo := _YOLO.match(line)) is not None:
        return _read_yolo(line, yolo)
    if (rich := _RICH.match(line)) is not None:
        of_all = Mark("epoch", "bar epoch", scale(rich["epoch"]), scale(rich["last"]) + 1, trains=True)
        return [of_all, Mark("bar", "in epoch", scale(rich["n"]), scale(rich["m"]), int(rich["epoch"]), trains=True)]
    if (bar := _BAR.match(line)) is not None:
        return _read_bar(bar, trains)
    for pattern in (_KERAS_BAR, _LLAMA_BAR):
        if (found := pattern.search(line)) is not None:
            return [Mark("step", "steps", scale(found["n"]), scale(found["m"]), trains=trains)]
    if (found := _IN_BRACKETS.match(line)) is not None and _LOSS.search(line):
        return [Mark("step", "steps", scale(found["n"]), scale(found["m"]), trains=True)]
    return _read_ratios(line, trains)


def _read_yolo(line: str, epoch: re.Match[str]) -> list[Mark]:
    marks = [Mark("epoch", "epoch", scale(epoch["n"]), scale(epoch["m"]), trains=True)]
    bar = _BAR.match(line) or _BAR_OF_YOLO.search(line)
    if bar is not None:
        marks.append(Mark("bar", "in epoch", scale(bar["n"]), scale(bar["m"]), trains=True))
    return marks


def _read_bar(bar: re.Match[str], trains: bool) -> list[Mark]:
    label = bar["label"].strip().rstrip(":")
    is_named = not label or trains or _OF_TRAINING.search(label) is not None
    if bar["bytes"] or _OTHER_UNIT.search(bar["rest"]) or _OTHER.search(label) or not is_named:
        return []
    n, m = scale(bar["n"]), scale(bar["m"])
    epoch = _EPOCH_OF_LABEL.search(label) or _TUNE_LABEL.match(label)
    name = re.sub(r"[\d.\s]+", " ", label)[:60].strip()
    if epoch is None:
        is_outer = re.search(r"\bepochs?\b", label, re.IGNORECASE) is not None
        return [Mark("epoch" if is_outer else "bar", "bar " + name, n, m, trains=trains)]
    marks = [Mark("bar", "in epoch", n, m, epoch=int(epoch["n"]), trains=trains)]
    if "m" in epoch.re.groupindex and epoch["m"]:
        marks.insert(0, Mark("epoch", "epoch", scale(epoch["n"]), scale(epoch["m"]), trains=trains))
    return marks


def _read_ratios(line: str, trains: bool) -> list[Mark]:
    """``epoch n/m``, ``step n of m``: in the order in which they stand."""
    marks: list[Mark] = []
    if _OTHER.search(line.split(":")[0][:40]) and not trains:
        return marks
    for found in _RATIO.finditer(line):
        n, m = scale(found["n"]), scale(found["m"])
        is_epoch = found["word"].lower().startswith("epoch")
        if 0 <= n <= m and m > 1:
            marks.append(Mark("epoch" if is_epoch else "step", "epoch" if is_epoch else "steps", n, m, trains=trains))
    if not marks and (steps := _EPOCH_AND_STEPS.search(line)) is not None:
        n, m = scale(steps["n"]), scale(steps["m"])
        marks.append(Mark("step", "in epoch", n, m, epoch=int(steps["epoch"]), trains=True))
    is_alone = len(marks) == 1 and marks[0].kind == "epoch"
    return [mark._replace(is_end=is_alone and trains) for mark in marks]


def scale(text: str) -> float:
    """``1.2k`` as tqdm writes it, ``12,000`` as a person does."""
    text = text.replace(",", "")
    factor = _SCALES.get(text[-1])
    return float(text) if factor is None else float(text[:-1]) * factor
