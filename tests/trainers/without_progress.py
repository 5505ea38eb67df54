"""Outputs that hold no progress of a training, although many of them count: 300 of them, from forms of common tools.

Each form is a line as the tool prints it; the numbers in it grow from output to output. ``{n}``, ``{m}``: done and
total; ``{p}``: per cent; ``{bar}``: as tqdm draws it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

FORMS: tuple[tuple[str, str], ...] = (
    ("pip", "   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ {n}.0/{m}.0 MB 12.3 MB/s eta 0:00:01"),
    ("pip-count", "Downloading torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl (899.8 MB)"),
    ("apt", "Get:{n} http://archive.example/ubuntu jammy/main amd64 libfoo{n} amd64 1.2-3 [12.3 kB]"),
    ("apt-unpack", "(Reading database ... {p}%"),
    ("dpkg", "Selecting previously unselected package libfoo{n}:amd64."),
    ("git", "Receiving objects:  {p}% ({n}/{m}), 12.30 MiB | 4.00 MiB/s"),
    ("git-delta", "Resolving deltas:  {p}% ({n}/{m})"),
    ("git-files", "Updating files:  {p}% ({n}/{m})"),
    ("wget", "model.safetensors   {p}%[=======>            ]  12.30M  4.00MB/s    eta 12s"),
    ("curl", " {p}  100M   {p} 12.3M    0     0  4000k      0  0:00:25  0:00:03  0:00:22 4000k"),
    ("docker", "Step {n}/{m} : RUN pip install -r requirements.txt"),
    ("podman", "STEP {n}/{m}: COPY . /app"),
    ("buildkit", "#12 [stage-0 {n}/{m}] RUN make"),
    ("ninja", "[{n}/{m}] Building CXX object CMakeFiles/foo.dir/bar{n}.cpp.o"),
    ("cmake", "[ {p}%] Building CUDA object CMakeFiles/foo.dir/bar{n}.cu.o"),
    ("make", "[{n}/{m}] c++ -MMD -MF bar{n}.o.d -DTORCH_EXTENSION_NAME=foo"),
    ("hub", "Fetching {m} files:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("hub-file", "model-0000{n}-of-0000{m}.safetensors:  {p}%|{bar}| {n}.0M/{m}.0M [00:12<00:30, 12.0MB/s]"),
    ("hub-load", "Loading checkpoint shards:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20s/it]"),
    ("hub-weights", "Loading weights:  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.20it/s]"),
    ("map", "Map:  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.00 examples/s]"),
    ("map-proc", "Map (num_proc=8):  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.00 examples/s]"),
    ("tokenize", "Running tokenizer on train dataset:  {p}%|{bar}| {n}/{m} [00:12<00:30, 12.00ba/s]"),
    ("tokenize-it", "Tokenizing train dataset:  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.00it/s]"),
    ("split", "Generating train split:  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.00 examples/s]"),
    ("filter", "Filter:  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.00 examples/s]"),
    ("pack", "Packing train dataset:  {p}%|{bar}| {n}/{m} [00:12<00:30, 120.00 examples/s]"),
    ("eval", "Evaluating:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("val", "Validation DataLoader 0:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("sanity", "Sanity Checking DataLoader 0:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("testing", "Testing DataLoader 0:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    (
        "yolo-val",
        "                 Class     Images  Instances      Box(P          R      mAP50:  {p}%|{bar}| {n}/{m}"
        " [00:12<00:30,  1.20it/s]",
    ),
    (
        "yolo-scan",
        "train: Scanning /data/labels/train... {n} images, 0 backgrounds, 0 corrupt:  {p}%|{bar}| {n}/{m}"
        " [00:12<00:30, 120.20it/s]",
    ),
    ("harness", "Running loglikelihood requests:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("graphs", "Capturing CUDA graph shapes:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("tests", "tests/test_foo{n}.py::test_bar PASSED                                  [ {p}%]"),
    ("ranks", "[rank {n}/{m}] NCCL INFO Channel 0{n}/0{m} :    0   1"),
    ("workers", "(worker {n}/{m}) ready"),
    ("versions", "requires torch 2.{n}/2.{m}"),
    ("dates", "2026/11/{n} 10:00:00 INFO request {n} of client took 12 ms"),
    ("server", 'INFO:     10.0.0.{n}:4000 - "GET /v1/models HTTP/1.1" 200 OK'),
    ("served", "Avg prompt throughput: {n}.0 tokens/s, GPU KV cache usage: {p}.0%, Running: {n} reqs"),
    ("memory", "GPU memory {n}/{m} GB, {p}% used"),
    ("samples", "accuracy {n}/{m} = {p}%"),
    ("gpus", "| N/A   {n}C    P0    {n}W / {m}W |  {n}MiB / {m}MiB |     {p}%      Default |"),
    ("loss-alone", "step {n} loss 0.{n}"),
    ("epoch-alone", "epoch {n} loss 0.{n}"),
    ("aria", "[#2089b0 {n}MiB/{m}MiB({p}%) CN:16 DL:12MiB ETA:3s]"),
    ("rclone", "Transferred:   {n} MiB / {m} MiB, {p}%, 12 MiB/s, ETA 3s"),
    ("pytest-count", "tests/test_foo.py::test_bar[{n}] PASSED [{p}%]"),
    ("tests-passed", "{n}/{m} passed, 0 failed"),
    ("fold", "Fold {n}/{m}: validation loss 0.{n}"),
    ("trial", "[I 2026-11-01 10:00:00,000] Trial {n}/{m} finished with value: 0.{n} and loss: 0.5"),
    (
        "ultralytics-val",
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): {p}% ━━━━━━━━━╸── "
        "{n}/{m} 3.1it/s 1.2s",
    ),
    (
        "ultralytics-scan",
        "train: Scanning /data/labels/train.cache... {n} images, 0 backgrounds, 0 corrupt: {p}% ━━━━━━━━━━━━ "
        "{n}/{m} 1.2Kit/s 0.1s",
    ),
    ("ninja-loss", "[{n}/{m}] Building CUDA object kernels/cross_entropy_loss.cu.o"),
    (
        "llama-samples",
        "train_opt_callback: iter=  {n} sample={n}/{m} sched=0.010000 loss=2.823248 dt=00:04:46 eta=02:18:26 |->",
    ),
    ("wandb", "wandb: uploading artifact model ({n}/{m} files done)"),
    ("hf-upload", "Upload {n}/{m} LFS files"),
    ("vllm", "Capturing CUDA graph shapes:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("sglang", "Multi-thread loading shards:  {p}% Completed | {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("diffusers-pipe", "Loading pipeline components...:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("sampling", "Sampling images:  {p}%|{bar}| {n}/{m} [00:12<00:30,  1.20it/s]"),
    ("conda", "numpy-2.0            | 7.1 MB    | ####5      |  {p}%"),
)
OUTPUTS = 300


def make_outputs() -> Iterator[tuple[str, list[str]]]:
    """(name, lines) of each."""
    draw = random.Random(1)
    for number in range(OUTPUTS):
        name, form = FORMS[number % len(FORMS)]
        m = draw.choice((5, 8, 12, 30, 100, 450, 1000, 12000))
        shown = sorted({1 + (m - 1) * each // 40 for each in range(41)})
        yield f"{name}-{number}", [fill(form, n, m) for n in shown]


def fill(form: str, n: int, m: int) -> str:
    percent = 100 * n // m
    bar = ("█" * (percent // 10)).ljust(10)
    for mark, text in (("{n}", str(n)), ("{m}", str(m)), ("{p}", str(percent)), ("{bar}", bar)):
        form = form.replace(mark, text)
    return form
