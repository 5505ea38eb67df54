"""What the documentation tells people to type works: commands, job files, settings."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from cyclopts import App
from pydantic import BaseModel

from autopilot.cli.main import COMMANDS, app
from autopilot.config.job_file import parse_job
from autopilot.config.settings import Settings
from autopilot.domain.params import Params
from autopilot.policy.guard import Limits

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE_PAGE = (ROOT / "docs/how-to/point-it-elsewhere.md").read_text()
NOW = datetime(2026, 1, 1, tzinfo=UTC)

_COMMAND = re.compile(r"(?:^|[\s`])autopilot ([a-z]+)((?: +[^\s`#|&;]+)*)")


def blocks(page: Path, language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


@pytest.fixture(scope="module")
def program() -> App:
    return app()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(program: App, page: Path) -> None:
    known = {command.name for command in COMMANDS}
    quoted = [*blocks(page, "sh"), *re.findall(r"`(autopilot [^`\n]+)`", page.read_text())]
    wrong = []
    for name, arguments in (found for text in quoted for found in _COMMAND.findall(text)):
        if name not in known:
            wrong.append(name)
            continue
        collection = program[name].assemble_argument_collection(parse_docstring=True)
        options = {option for argument in collection for option in argument.names}
        ours = re.split(r"(?: |^)-- ", arguments)[0].split()  # what follows a lone -- is another program's
        wrong += [f"{name} {word}" for word in ours if re.match(r"--?[a-z]", word) and word not in options]
    assert wrong == []


def test_every_command_is_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert [command.name for command in COMMANDS if f"`{command.name}`" not in text] == []


def test_the_readme_s_job_is_a_job() -> None:
    (example,) = blocks(ROOT / "README.md", "toml")
    assert parse_job(example, source="README.md", now=NOW).name == "research"


def test_the_quickstart_s_job_brings_its_code() -> None:
    page = ROOT / "docs/quickstart.md"
    sent, cloned = (parse_job(example, source=page.name, now=NOW) for example in blocks(page, "toml"))
    assert sent.code is not None
    assert "git clone" in cloned.setup
    assert "docs/quickstart.md#bring-your-code" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("file", sorted((ROOT / "config/jobs").glob("*.toml")), ids=lambda file: file.name)
def test_each_shipped_job_says_how_code_reaches_the_machine(file: Path) -> None:
    spec = parse_job(file.read_text(), source=file.name, now=NOW)
    assert "[code]" in file.read_text()
    assert (spec.code is not None) != spec.image.startswith("autopilot/"), "or the image has it"


@pytest.mark.parametrize("name", ["quickstart.md", "how-to/point-it-elsewhere.md"])
def test_an_emulator_is_never_tried_on_the_real_ledger_or_with_the_real_key(name: str) -> None:
    served = [block for block in blocks(ROOT / "docs" / name, "sh") if "autopilot serve" in block]
    assert served
    for block in served:
        assert "AUTOPILOT_STATE_DIR=" in block
        assert "VASTAI__API_KEY_FILE=" in block


@pytest.mark.parametrize("page", [*PAGES, ROOT / "config/autopilot.toml"], ids=lambda page: page.name)
def test_dollars_in_shell_examples_survive_the_shell(page: Path) -> None:
    assert re.findall(r'AUTOPILOT_\w+="\$\d', page.read_text()) == []


def test_root_is_told_whose_ledger_is_meant() -> None:
    """Without the variable root's own directory would be looked at."""
    for page in PAGES:
        text = page.read_text()
        for line in re.findall(r"sudo [^\n`]*\bautopilot (?:doctor|db)\b", text):
            assert "AUTOPILOT_STATE_DIR=/var/lib/autopilot" in line, (page.name, line)


def test_the_service_is_started_after_what_it_needs() -> None:
    text = (ROOT / "docs/how-to/run-on-systemd.md").read_text()
    before, _, _ = text.partition("systemctl enable --now autopilot")
    assert all(word in before for word in ("blobs.url", "uncertified", "[limits]", "-r requirements.lock"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs/how-to").glob("*.md")), ids=lambda page: page.name)
def test_settings_in_how_tos_are_settings(page: Path) -> None:
    for text in blocks(page, "toml"):
        values = tomllib.loads(text, parse_float=Decimal)
        if "image" in values:
            parse_job(text, source=page.name, now=NOW)
        elif "project" not in values:  # a package's metadata
            Settings(**values)


@pytest.mark.parametrize("variable", re.findall(r"\| `(AUTOPILOT_\w+)` \|", ELSEWHERE_PAGE))
def test_variables_are_settings(variable: str) -> None:
    path = variable.removeprefix("AUTOPILOT_").lower().split("__")
    if path == ["clock_speed"]:
        return
    field = Settings.model_fields[path[0]]
    if path[0] == "providers":
        assert path[1] == "vastai"
    elif len(path) == 2:
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, BaseModel)
        assert path[1] in field.annotation.model_fields


def test_money_page_states_the_defaults() -> None:
    text = (ROOT / "docs/explanation/money.md").read_text()
    limits, params = Settings().limits, Params()
    assert f"`[limits] day` in the settings | ${limits.day} |" in text
    assert f"`[limits] month` | ${limits.month} |" in text
    assert f"`[limits] max_hourly` | ${limits.max_hourly} |" in text
    assert f"`[limits] max_instances` | {limits.max_instances} |" in text
    assert f"`[limits] max_launches_per_hour` | {limits.max_launches_per_hour} |" in text
    assert f"`[limits] max_launches_per_job` | {limits.max_launches_per_job} |" in text
    assert f"(detection {params.budget.detect_s:g} s + last checkpoint {params.budget.save_timeout_s:g} s" in text
    assert f"+ destroy {params.budget.destroy_s:g} s)" in text
    assert f"disk rate × {params.budget.tail_h:g} h" in text
    assert set(Limits.__dataclass_fields__) == {
        "day",
        "month",
        "max_hourly",
        "max_instances",
        "launches_per_job_10min",
        "launches_per_hour",
        "refused_per_job_10min",
        "refused_per_hour",
    }


def test_policy_pages_state_the_numbers() -> None:
    pages = (ROOT / "docs/explanation" / name for name in ("policy.md", "pricing.md"))
    text = " ".join(" ".join(page.read_text() for page in pages).split())
    params = Params()
    for sentence in (
        f"floor × {params.bids.markup},",
        f"{params.bids.ceiling_of_on_demand} × that machine's on-demand price",
        f"back within {params.bids.rebid_settle_s:g} s",
        f"(set-up {params.timing.setup_s / 60:g} min +",
        f"an image of {params.traffic.image_gb} GB",
        f"(1 + {params.hazard.preemptions_per_h:g}/h ×",
        f"wait, at most {params.waiting.longest_pause_s / 60:g} minutes",
        f"{params.loading.most_dead_hosts} hosts in a row",
        f"the least of {params.deadline.estimate_error:g} × the estimate and {params.deadline.held_share:g} ×",
        f"for an estimate that is too low, by {params.deadline.estimate_error * 100:g} %",
        f"From {params.deadline.pace_known_at * 100:g} % of the job on only {params.deadline.pace_error * 100:g} %",
        f"{params.deadline.recognised_trust * 100:g} % of it at the most",
        f"(share of the job that was seen ÷ {params.deadline.recognised_known_at * 100:g} %,",
        f"lag {params.timing.tick_lag_s:g} s + detection {params.budget.detect_s:g} s",
        f"after {params.moves.least_stay_s / 60:g} minutes on the machine",
        f"a saving of at least {params.moves.least_saving * 100:.0f} %",
        f"Loading for more than {params.loading.timeout_s / 60:g} minutes",
        f"running for {params.loading.silence_s / 60:g} minutes without a word",
        f"offline for {params.loading.offline_grace_s:g} s",
    ):
        assert sentence in text
