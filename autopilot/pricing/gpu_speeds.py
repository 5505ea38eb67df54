"""Relative speeds of GPUs, for comparing offers before a job's own progress says better.

The figure is the vendor's peak of dense half-precision matrix arithmetic with 32-bit accumulation, in TFLOPS, as its
data sheet states it (without sparsity): a fair first guess for training and batched inference, no more. Sources: the
NVIDIA data sheets and architecture papers of the Turing, Volta, Ampere, Ada, Hopper and Blackwell generations.
"""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain import gpu_names

TFLOPS: dict[str, Decimal] = {
    name: Decimal(tflops)
    for name, tflops in {
        "TESLA T4": "65",
        "TESLA V100": "125",
        "RTX 2080 TI": "54",
        "RTX 3060": "26",
        "RTX 3070": "41",
        "RTX 3080": "60",
        "RTX 3090": "71",
        "RTX 3090 TI": "80",
        "RTX 4060 TI": "44",
        "RTX 4070": "58",
        "RTX 4080": "97",
        "RTX 4090": "165",
        "RTX 5080": "113",
        "RTX 5090": "210",
        "RTX A4000": "77",
        "RTX A5000": "111",
        "RTX A6000": "155",
        "RTX 6000ADA": "364",
        "A10": "125",
        "A40": "150",
        "A100": "312",
        "L4": "121",
        "L40": "181",
        "L40S": "362",
        "H100": "989",
        "H200": "989",
        "B200": "2250",
    }.items()
}


def speed(gpu: str) -> Decimal | None:
    """TFLOPS of one GPU by a name for it ("A100 SXM4", "H100"): the longest name that begins its standard name."""
    name = gpu_names.standard(gpu).upper()
    known = [model for model in TFLOPS if name == model or name.startswith(model + " ")]
    return TFLOPS[max(known, key=len)] if known else None


def relative_speed(gpu: str, count: int, than: str, than_count: int) -> Decimal | None:
    """How many times as fast as ``than_count`` × ``than``; None when either is not in the table."""
    ours, theirs = speed(gpu), speed(than)
    return ours * count / (theirs * than_count) if ours is not None and theirs is not None else None
