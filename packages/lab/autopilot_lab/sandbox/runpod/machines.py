"""RunPod's machines: GPUs of one model in one place, the host's floor, and the other customers on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from autopilot_lab.sandbox.host_traits import SOUND, HostTraits, Truth, driver_of, is_as_new
from autopilot_lab.sandbox.market.machines import HostState


class Cloud(StrEnum):
    SECURE = "SECURE"
    COMMUNITY = "COMMUNITY"


@dataclass(frozen=True)
class GpuType:
    id: str
    display_name: str
    pool: str
    memory_gb: int


@dataclass(frozen=True)
class MachineSpec:
    """Facts of a machine that do not change. Prices are dollars per GPU-hour; ``floor`` ``None``: no spot."""

    machine_id: str
    gpu_type: GpuType
    gpu_count: int
    cloud: Cloud
    data_center_id: str | None
    """Location of a Secure machine; Community machines have a country only."""
    country: str
    floor: Decimal | None
    on_demand: Decimal
    vcpus_per_gpu: int
    memory_gb_per_gpu: int
    disk_gb: int
    download_mbps: int
    upload_mbps: int
    cuda_version: str
    public_ip: str | None
    arch: str = "amd64"
    truth: Truth = SOUND

    @property
    def traits(self) -> HostTraits:
        """What the market knows of the host; its driver and its place within the country are told nowhere."""
        return HostTraits(
            driver=driver_of(self.cuda_version),
            cuda=self.cuda_version,
            arch=self.arch,
            cpus=self.vcpus_per_gpu * self.gpu_count,
            ram_gb=self.memory_gb_per_gpu * self.gpu_count,
            download_mbps=self.download_mbps,
            upload_mbps=self.upload_mbps,
            country=self.country,
            truth=self.truth,
        )


@dataclass
class Stranger:
    """Another customer: a rival's bid in $/h per GPU, or an on-demand rental (``bid`` is ``None``)."""

    id: str
    gpu_count: int
    bid: Decimal | None
    arrival: int


@dataclass
class Machine:
    spec: MachineSpec
    floor: Decimal | None
    state: HostState = HostState.ONLINE
    strangers: dict[str, Stranger] = field(default_factory=dict)


@dataclass(frozen=True)
class Requirements:
    """What a customer asks of a machine; ``None`` and empty: anything will do."""

    clouds: frozenset[Cloud] = frozenset(Cloud)
    data_center_ids: frozenset[str] = frozenset()
    country: str | None = None
    min_vcpus: int = 0
    min_memory_gb: int = 0
    min_disk_gb: int = 0
    min_download_mbps: int = 0
    min_upload_mbps: int = 0
    public_ip: bool = False
    cuda_versions: frozenset[str] = frozenset()
    min_cuda_version: str | None = None

    def met_by(self, machine: Machine, gpu_count: int) -> bool:
        """Whether ``gpu_count`` GPUs of the machine, rented or not, would do. CPUs and memory come with the GPUs."""
        spec = machine.spec
        return (
            machine.state is HostState.ONLINE
            and spec.gpu_count >= gpu_count
            and spec.cloud in self.clouds
            and (not self.data_center_ids or (spec.data_center_id or "") in self.data_center_ids)
            and (self.country is None or spec.country == self.country.upper())
            and spec.vcpus_per_gpu * gpu_count >= self.min_vcpus
            and spec.memory_gb_per_gpu * gpu_count >= self.min_memory_gb
            and spec.disk_gb >= self.min_disk_gb
            and spec.download_mbps >= self.min_download_mbps
            and spec.upload_mbps >= self.min_upload_mbps
            and (spec.public_ip is not None or not self.public_ip)
            and (not self.cuda_versions or spec.cuda_version in self.cuda_versions)
            and (self.min_cuda_version is None or is_as_new(spec.cuda_version, self.min_cuda_version))
        )
