"""Everything that shapes a sandbox."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from autopilot_lab.sandbox.market.lifecycle import Timings
from autopilot_lab.sandbox.market.machines import MachineSpec
from autopilot_lab.sandbox.mithril.pools import AuctionPoolSpec
from autopilot_lab.sandbox.mithril.provider import MithrilConfig
from autopilot_lab.sandbox.nebius.config import NebiusConfig
from autopilot_lab.sandbox.nebius.pools import PoolSpec
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.runpod.exchange import ExchangeConfig, Mode
from autopilot_lab.sandbox.runpod.machines import MachineSpec as PodMachineSpec
from autopilot_lab.sandbox.runpod.pods import NetworkVolume
from autopilot_lab.sandbox.runpod.provider import RunpodConfig
from autopilot_lab.sandbox.zoo import Zoo, make_zoo

DEFAULT_EXCHANGE = ExchangeConfig()


@dataclass(frozen=True)
class SandboxConfig:
    """Durations are market seconds; ``machines`` replaces the default market."""

    state_dir: Path
    seed: int = 1
    private_images: tuple[PrivateImage, ...] = ()
    """What no market pulls without the right login."""
    host: str = "127.0.0.1"
    port: int = 0
    account_id: int = 123
    """What vast.ai calls the account."""
    api_keys: tuple[str, ...] = ("sandbox-key",)
    credit: Decimal = Decimal(100)
    machines: tuple[MachineSpec, ...] | None = None
    duds: float | None = None
    """Share of the hosts that never boot, on markets whose hosts differ. None: the default ones, where none does."""
    churn: bool = False
    enforce_rate_limits: bool = True
    search_quota_rows: int = 20_000
    real_processes: bool = True
    ssh: bool = False
    """vast.ai's instances can be logged in to, and have a network of their own. It takes root, Linux and OpenSSH."""
    ssh_names: bool = False
    """Their addresses are sshN.vast.ai, as the market's; the caller sees to it that these lead to ``host``."""
    clearing_is_visible: bool = False
    """Whether a chunk held by a rival shows the bid that would win it; otherwise it shows the host's floor."""
    list_lag_s: float = 0.0
    """How late the instance list learns of new and destroyed instances."""
    log_polls: int = 1
    """How often a requested log is not there yet."""
    loading_s: float = 40.0
    """From create until the container runs."""
    resume_s: float = 20.0
    """From regaining the GPUs until the container runs again."""
    status_lag_s: float = 30.0
    """How long ``actual_status`` lags behind a stop."""
    underbid_delay_s: float = 47.0
    """From lowering a bid until the auction sees it."""
    bid_echo_lag_s: float = 16.0
    """From a changed bid until the machine's ``min_bid`` echoes it."""

    runpod_keys: tuple[str, ...] = ("runpod-sandbox-key",)
    runpod_balance: Decimal = Decimal(100)
    runpod_machines: tuple[PodMachineSpec, ...] | None = None
    runpod_network_volumes: tuple[NetworkVolume, ...] = ()
    runpod_mode: str = Mode.NORMAL
    """normal, no_supply, mutation_removed or graphql_gone."""
    runpod_exchange: ExchangeConfig = DEFAULT_EXCHANGE
    """What RunPod does not document, or does differently for different accounts."""
    runpod_billing_lag_s: float = 3600.0
    """How late billing learns of what was used."""
    runpod_pull_s: float = 40.0
    """From renting a pod until its container runs."""
    runpod_resume_s: float = 15.0
    """From resuming a pod until its container runs again."""

    mithril_keys: tuple[str, ...] = ("mithril-sandbox-key",)
    mithril_pools: tuple[AuctionPoolSpec, ...] | None = None
    mithril_start_s: float = 60.0
    """From winning until a new machine runs."""
    mithril_page_rows: int = 100
    """The most that one page of a list holds."""
    mithril_list_lag_s: float = 0.0
    """How late the list of machines learns of a new one."""
    mithril_ended_by_others: int | None = 0
    """Bids of colleagues that have ended and stay listed, beside the few strangers; None: there are no others."""

    nebius_port: int | None = None
    """Where Nebius's services listen, 0: any free port. None: this market is not there, and its SDK is not needed."""
    nebius_keys: tuple[str, ...] = ("nebius-sandbox-key",)
    nebius_pools: tuple[PoolSpec, ...] | None = None
    nebius_start_s: float = 40.0
    """From finding hardware until a machine runs."""
    nebius_page_rows: int = 1000
    """The most that one page of a list holds."""
    nebius_strangers: bool = True
    """Whether machines, policies and disks of colleagues stand in the lists."""

    def with_zoo(self, start: datetime) -> SandboxConfig:
        """With the catalogues that ``duds`` asks for, where none is given. Raises ``ValueError``."""
        if self.duds is None:
            return self
        zoo: Zoo = make_zoo(self.seed, self.duds, start)
        return replace(
            self,
            machines=zoo.vastai if self.machines is None else self.machines,
            runpod_machines=zoo.runpod if self.runpod_machines is None else self.runpod_machines,
            runpod_exchange=replace(self.runpod_exchange, places_anywhere=True),
            mithril_pools=zoo.mithril if self.mithril_pools is None else self.mithril_pools,
            nebius_pools=zoo.nebius if self.nebius_pools is None else self.nebius_pools,
        )

    @property
    def timings(self) -> Timings:
        return Timings(
            provision_s=self.loading_s / 10,
            loading_s=self.loading_s,
            resume_s=self.resume_s,
            status_lag_s=self.status_lag_s,
            underbid_delay_s=self.underbid_delay_s,
            bid_echo_lag_s=self.bid_echo_lag_s,
        )

    @property
    def runpod(self) -> RunpodConfig:
        return RunpodConfig(
            keys=self.runpod_keys,
            seed=self.seed,
            private_images=self.private_images,
            balance=self.runpod_balance,
            machines=self.runpod_machines,
            mode=Mode(self.runpod_mode),
            exchange=self.runpod_exchange,
            churn=self.churn,
            enforce_rate_limits=self.enforce_rate_limits,
            billing_lag_s=self.runpod_billing_lag_s,
            pull_s=self.runpod_pull_s,
            resume_s=self.runpod_resume_s,
            network_volumes=self.runpod_network_volumes,
        )

    @property
    def mithril(self) -> MithrilConfig:
        return MithrilConfig(
            keys=self.mithril_keys,
            seed=self.seed,
            private_images=self.private_images,
            pools=self.mithril_pools,
            churn=self.churn,
            start_s=self.mithril_start_s,
            page_rows=self.mithril_page_rows,
            list_lag_s=self.mithril_list_lag_s,
            ended_by_others=self.mithril_ended_by_others,
        )

    @property
    def nebius(self) -> NebiusConfig | None:
        if self.nebius_port is None:
            return None
        return NebiusConfig(
            port=self.nebius_port,
            keys=self.nebius_keys,
            seed=self.seed,
            private_images=self.private_images,
            pools=self.nebius_pools,
            churn=self.churn,
            start_s=self.nebius_start_s,
            page_rows=self.nebius_page_rows,
            strangers=self.nebius_strangers,
        )
