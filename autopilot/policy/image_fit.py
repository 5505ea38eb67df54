"""Whether an image starts on the machine of an offer, by what its registry and the market say. Unknown is not unfit."""

from __future__ import annotations

from decimal import Decimal

from autopilot.domain import gpu_names
from autopilot.domain.cuda_requirement import Driver, read_version
from autopilot.domain.gpu_support import compute_cap_of
from autopilot.domain.host_fit import cuda_of
from autopilot.domain.image import ImageFacts
from autopilot.domain.job import JobSpec
from autopilot.domain.money import Number
from autopilot.domain.offer import Offer

_BRANDS: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = (
    (("RTX A", "RTX PRO", "Q RTX"), frozenset({"quadro", "quadrortx", "nvidiartx", "nvidia"})),
    (("RTX", "GTX"), frozenset({"geforce", "geforcertx"})),
    (("Titan",), frozenset({"titan", "titanrtx"})),
    (("MI",), frozenset()),
)
"""By the beginning of a GPU's name: what NVIDIA's driver may call its brand. Older and newer drivers differ."""
OF_IMAGE = ("image_arch", "image_driver")
"""Conditions that come of an image."""
_OF_SERVERS = frozenset({"tesla", "nvidia"})


def find_image_lack(image: ImageFacts | None, spec: JobSpec, offer: Offer) -> tuple[str, Number, Number] | None:
    """What keeps the image from starting there: the condition, what the machine has, what is wanted; None: nothing."""
    if image is None:
        return None
    arch = offer.host.arch
    if arch is not None and image.architectures and arch not in image.architectures:
        return "image_arch", None, None
    required = image.require(spec.env)
    if required.is_met(_driver_of(offer)) is not False:
        return None
    least = required.least_cuda
    cuda = cuda_of(offer)
    if cuda is None or least is None:
        return "image_driver", None, None
    return "image_driver", cuda, Decimal(".".join(str(part) for part in least[:2]))


def _driver_of(offer: Offer) -> Driver:
    cuda, compute = cuda_of(offer), offer.host.compute_cap or compute_cap_of(offer.gpu)
    return Driver(
        cuda=None if cuda is None else read_version(f"{cuda:f}"),
        version=read_version(offer.host.driver),
        compute=None if compute is None else read_version(f"{compute:f}"),
        brands=_brands_of(offer.gpu),
    )


def _brands_of(gpu: str) -> frozenset[str]:
    if not gpu_names.models(gpu):
        return frozenset()
    if gpu.endswith("Ada"):
        return _BRANDS[0][1]
    return next((brands for beginnings, brands in _BRANDS if gpu.startswith(beginnings)), _OF_SERVERS)
