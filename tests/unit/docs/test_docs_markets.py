"""Each market that the program can be pointed at has a page that says what is supported and what is not proven."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autopilot.domain import gpu_names
from autopilot.domain.evolve_lease import UNOBSERVED_LASTS
from autopilot.markets.installed import claims_of, every_market
from autopilot.providers.mithril import pacing as mithril_pacing
from autopilot.providers.mithril.client import MOST_PAGES
from autopilot.providers.mithril.config import MithrilSettings
from autopilot.providers.nebius import client as nebius_client
from autopilot.providers.nebius import pacing as nebius_pacing
from autopilot.providers.nebius.adapter import LEFT_OVER_AFTER
from autopilot.providers.nebius.config import NebiusSettings
from autopilot.providers.nebius.create import LEAST_DISK_GB
from autopilot.providers.runpod import create, mapping, pacing, spot
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.slurm import config as slurm_config
from autopilot.providers.slurm import wire as slurm_wire
from autopilot.providers.slurm.commands import NOTICE_S
from autopilot.providers.ssh.adapter import AGENT_WITHIN_S
from autopilot.providers.ssh.config import MOST_GPUS, MOST_JOBS, MOST_MACHINES, MachineSettings, SshSettings
from autopilot.providers.ssh.machine import AGAIN_S, UNSEEN_S
from autopilot.providers.ssh.shipped.program import GRACE_S, MOST_LEASES, USED_MIB
from autopilot.providers.ssh.wire import MOST_ANSWER
from tools.references import with_claims

PAGES = Path(__file__).parents[3] / "docs" / "providers"
MARKETS = every_market()


@pytest.mark.parametrize("name", MARKETS)
def test_a_market_s_page_says_what_is_not_verified(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    assert "## What is supported" in text
    assert "## Not verified" in text


RUNPOD = (PAGES / "runpod.md").read_text()


def test_runpod_s_own_settings_and_their_defaults_are_shown() -> None:
    shown = re.findall(r"^\| `(\w+)` \| (?:`(.+?)` )?\| ", RUNPOD.split("## Settings")[1], re.MULTILINE)
    own = {name: field.default for name, field in RunpodSettings.model_fields.items()}
    assert dict(shown) == {name: f"{own[name]}" for name in own if name not in ("base_url", "api_key")}


def test_runpod_s_page_states_the_numbers() -> None:
    seconds = pacing.INTERVAL_S
    for sentence in (
        f"{spot.REFUSALS_IN_A_ROW} spot rentals refused in a row",
        f"no spot for {spot.NO_SUPPLY_S / 3600:g} hours, then",
        f"and again every {spot.PROBE_EVERY_S / 3600:g} hours",
        f"a new probe after {spot.PROBE_EVERY_S / 3600:g} hours",
        f"missing for {mapping.LOST_AFTER.seconds // 60} minutes",
        f"a volume at `{create.VOLUME_PATH}`",
        f"${mapping.DISK_PRICE} per GB and month while a pod runs; stopped, the volume ${mapping.STOPPED_VOLUME_PRICE}",
        f"Reads are {seconds[pacing.Family.GRAPHQL_READ]:g} s apart, "
        f"changes and creates {seconds[pacing.Family.GRAPHQL_CHANGE]:g} s; "
        f"REST calls {seconds[pacing.Family.REST_READ]:g} s",
    ):
        assert sentence in RUNPOD
    assert seconds[pacing.Family.CREATE] == seconds[pacing.Family.GRAPHQL_CHANGE]
    assert seconds[pacing.Family.REST_CHANGE] == seconds[pacing.Family.REST_READ]


MITHRIL = (PAGES / "mithril.md").read_text()


def test_mithril_s_own_settings_and_their_defaults_are_shown() -> None:
    shown = re.findall(r"^\| `(\w+)` \| (?:`(.+?)` )?\| ", MITHRIL.split("## Settings")[1], re.MULTILINE)
    own = {name: field.default for name, field in MithrilSettings.model_fields.items()}
    assert dict(shown) == {name: f"{own[name]}" for name in own if name not in ("base_url", "api_key")}


def test_mithril_s_page_states_the_numbers() -> None:
    seconds, families = mithril_pacing.INTERVAL_S, mithril_pacing.Family
    told = (("prices", families.PRICE), ("changes", families.CHANGE), ("creates", families.CREATE))
    others = ", ".join(f"{name} {seconds[family]:g} s" for name, family in told)
    assert f"Reads are {seconds[families.LIST]:g} s apart, {others};" in MITHRIL
    assert f"page by page, up to {MOST_PAGES} pages" in MITHRIL
    assert f"for more than {UNOBSERVED_LASTS.seconds} s, the limit is booked" in MITHRIL


NEBIUS = (PAGES / "nebius.md").read_text()


def test_nebius_s_own_settings_and_their_defaults_are_shown() -> None:
    shown = re.findall(r"^\| `(\w+)` \| (?:`(.+?)` )?\| ", NEBIUS.split("## Settings")[1], re.MULTILINE)
    own = {name: field.default for name, field in NebiusSettings.model_fields.items()}
    assert dict(shown) == {name: f"{own[name] or ''}" for name in own if name not in ("base_url", "api_key")}


def test_nebius_s_page_states_the_numbers() -> None:
    seconds, families = nebius_pacing.INTERVAL_S, nebius_pacing.Family
    told = (("prices", families.PRICE), ("changes", families.CHANGE), ("creates", families.CREATE))
    others = ", ".join(f"{name} {seconds[family]:g} s" for name, family in told)
    assert f"Reads are {seconds[families.LIST]:g} s apart, {others}." in NEBIUS
    assert f"{nebius_client.MOST_PAGE_ROWS:,} rows to a page, {nebius_client.MOST_PAGES} pages to a list" in NEBIUS
    assert f"of {LEAST_DISK_GB} GB at least" in NEBIUS
    assert f"once it is {LEFT_OVER_AFTER.seconds // 60} minutes old" in NEBIUS
    assert f"for more than {UNOBSERVED_LASTS.seconds} s, the cap is booked" in NEBIUS


SSH = (PAGES / "ssh.md").read_text()


def test_settings_of_ones_own_machines_and_their_defaults_are_shown() -> None:
    shown = re.findall(r"^\| `(\w+)` \| (?:`(.+?)` )?\| ", SSH.split("## Settings")[1], re.MULTILINE)
    models = {**SshSettings.model_fields, **MachineSettings.model_fields}
    plain = {name: "" if isinstance(field.default, tuple | dict) else field.default for name, field in models.items()}
    told = {name: "" if default is None or name == "host" else f"{default}" for name, default in plain.items()}
    assert dict(shown) == {**told, "owner_may_take_back": "false"}


def test_the_page_of_ones_own_machines_states_the_numbers() -> None:
    assert f"has {GRACE_S:g} s to save" in SSH
    assert f"more than {USED_MIB // 1024} GiB in its memory" in SSH
    assert f"{MOST_ANSWER // 1024} kB, {MOST_LEASES} jobs, {MOST_GPUS} GPUs a machine" in SSH
    assert f"asked for every {AGAIN_S:g} s" in SSH
    assert f"unknown for {UNSEEN_S / 60:g} minutes" in SSH
    assert f"digits and dashes. {MOST_MACHINES} at most" in SSH
    assert f"Jobs at once, {MOST_JOBS} at most" in SSH
    assert f"no agent within {AGENT_WITHIN_S / 60:g} minutes" in SSH


SLURM = (PAGES / "slurm.md").read_text()


def test_settings_of_a_cluster_and_their_defaults_are_shown() -> None:
    shown = re.findall(r"^\| `(\w+)` \| (?:`(.+?)` )?\| ", SLURM.split("## Settings")[1], re.MULTILINE)
    models = {**slurm_config.SlurmSettings.model_fields, **slurm_config.PartitionSettings.model_fields}
    plain = {name: "" if isinstance(field.default, tuple | dict) else field.default for name, field in models.items()}
    told = {name: "" if default is None else f"{default}" for name, default in plain.items()}
    assert dict(shown) == {**told, "gpu": "", "vram_gb": ""}


def test_the_page_of_a_cluster_states_the_numbers() -> None:
    assert f"| {NOTICE_S} s before the time limit" in SLURM
    assert f"by Slurm's names. {slurm_config.MOST_PARTITIONS} at most" in SLURM
    assert f"waiting or running, {slurm_config.MOST_JOBS} at most" in SLURM
    rows, leases = slurm_wire.MOST_ROWS, slurm_wire.MOST_LEASES
    assert f"{slurm_wire.MOST_ANSWER // 1024} kB, {rows} jobs of yours, {leases} leases" in SLURM


def test_what_is_told_about_spot_is_what_the_probe_says() -> None:
    told = RUNPOD.split("## What you are told")[1].split("\n## ")[0]
    assert f"`runpod: no spot, {spot.NO_SUPPLY}`" in told
    source = Path(spot.__file__).read_text()
    for words in (
        "the market takes spot requests",
        "not in the API any more",
        "the GraphQL API, the only one with spot, is withdrawn",
    ):
        assert words in told
        assert words in source
    events = set(re.findall(r"`(spot\.became_\w+)`", RUNPOD))
    assert events == set(re.findall(r'"(spot\.became_\w+)"', source))


@pytest.mark.parametrize("market", MARKETS)
def test_a_market_s_page_shows_its_claims_as_the_code_lists_them(market: str) -> None:
    page = (PAGES / f"{market}.md").read_text()
    assert with_claims(page, market) == page, "python -m tools.references rewrites them"
    ids = [claim.id for claim in claims_of(market)]
    assert len(ids) == len(set(ids))


ROOT = Path(__file__).parents[3]
SPOKEN_OF = (
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("config/**/*.toml"),
    *(path for room in ("cli", "config", "api", "service") for path in (ROOT / "autopilot" / room).glob("*.py")),
)
GPU_NAME = re.compile(
    r"\b(?:RTX|GTX|Tesla)[ _]?(?:PRO )?[A-Z]?\d{2,4}(?: ?(?:Ti|Ada))?\b(?:[ -]\d+ ?GB\b)?"
    r"|\b(?:[ABH]\d{3}|GH200|L40S?|A40|V100)\b(?:[ -](?:PCI[Ee]|SXM\d?|NVL)\b)?(?:[ -]\d+ ?GB\b)?"
)


def named(text: str) -> set[str]:
    return set(GPU_NAME.findall(text))


def test_the_names_of_gpus_are_found_in_texts() -> None:
    found = named('gpu = "RTX 4090:1 | A100 SXM4 80GB:2", an L40S, rtx, eight H100 and `RTX 9999`')
    assert found == {"RTX 4090", "A100 SXM4 80GB", "L40S", "H100", "RTX 9999"}
    assert not gpu_names.models("RTX 9999")


@pytest.mark.parametrize("path", SPOKEN_OF, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_example_or_hint_names_a_gpu_that_no_market_lists(path: Path) -> None:
    assert {name for name in named(path.read_text()) if not gpu_names.models(name)} == set()


def test_each_claim_that_a_step_settles_was_found_where_it_was_broken() -> None:
    table = (PAGES.parent / "research" / "2026-11-certify-claims.md").read_text()
    rows = set(re.findall(r"^\| ([\w.]+) \| `([\w-]+)` \| broken \| ", table, re.MULTILINE))
    assert rows == {
        (facts.display_name, claim.id) for facts in MARKETS.values() for claim in facts.certify.claims if claim.step
    }
