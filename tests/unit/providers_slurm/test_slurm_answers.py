"""What Slurm's commands print, by texts of Slurm 22.05: anything at all is a record of its type or no answer."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.providers.slurm.wire import (
    MOST_LEASES,
    MOST_ROWS,
    SeenEnd,
    SeenJob,
    UnreadableOutput,
    name_of,
    read_config,
    read_ends,
    read_gres,
    read_jobs,
    read_leases,
    read_partitions,
    read_sections,
    read_span,
    read_submitted,
    read_time,
)

OURS = "J|1|1000|RUNNING|None|low|1795954280|1795954281|1795954881|gpu[01-02]|ap1.x.1|autopilot ap1.x.1|E"
WAITS = "J|3|1000|PENDING|Resources|low|1795954475|1795954740|1795955340||ap1.x.3|autopilot ap1.x.3|E"
BUSY = "J|4|1000|PENDING|Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
BUSY += "|low|1795954475|N/A|N/A||ap1.x.4|autopilot ap1.x.4|E"
ODD = "J|2|1000|PENDING|None|high|1795954282|N/A|N/A||a\nb|c|x\ny|E"
"""A job with lines and separators in its name and its comment."""
FORGED = "J|5|1000|RUNNING|None|low|1|1|1|n|ap1.x.9|autopilot ap1.x.1|E"
TOKEN = "autopilot-5e"
NODES = """\
S|low|up|2|2000|idle|1|gpu:rtx4090:2|E
S|low|up|64+|515000+|mixed-|3|gpu:a100:4(S:0-1),shard:8|E
S|low|up|64|515000|down*|7|gpu:a100:8|E
S|old|up|8|1000|drained|2|(null)|E
S|shut|inact|8|1000|idle|2|gpu:2|E
"""
PARTITIONS = """\
PartitionName=low AllowGroups=ALL Default=YES QoS=N/A GraceTime=5 MaxTime=01:00:00 PreemptMode=REQUEUE State=UP
PartitionName=old AllowGroups=ALL GraceTime=0 MaxTime=UNLIMITED PreemptMode=OFF State=UP TRES=cpu=2,mem=2000M
"""
CONFIG = """\
Configuration data as of 2026-11-29T12:14:38
KillWait                = 30 sec
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
"""


def test_ours_are_told_from_the_users_other_jobs() -> None:
    found = read_jobs("\n".join([OURS, ODD, WAITS, FORGED, BUSY]) + "\n")
    assert [each.job_id for each in found] == ["1", "3", "4"]
    assert found[0] == SeenJob(
        "1", "1000", "ap1.x.1", "RUNNING", "None", "low",
        datetime(2026, 11, 29, 12, 11, 21, tzinfo=UTC), datetime(2026, 11, 29, 12, 21, 21, tzinfo=UTC), "gpu[01-02]",
    )  # fmt: skip
    assert found[2].starts_at is None
    assert found[2].reason.startswith("Nodes required for job are DOWN, DRAINED")
    assert read_jobs("") == ()


@pytest.mark.parametrize(
    "text",
    [
        "slurm_load_jobs error: Unable to contact slurm controller",
        OURS + "\n" + OURS,
        OURS[:-2],
        OURS.replace("|", "<"),
        OURS.replace("J|1|", "J|-1|"),
        "\n".join(f"J|{n}|1|RUNNING|None|low|1|1|1|n|x|y|E" for n in range(MOST_ROWS + 1)),
    ],
)
def test_what_is_no_list_of_jobs_is_none(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        read_jobs(text)


@given(st.integers(0, len(OURS) - 1), st.text(max_size=6))
def test_a_row_with_anything_in_it_is_read_or_refused(at: int, put: str) -> None:
    try:
        found = read_jobs(OURS[:at] + put + OURS[at + 1 :])
    except UnreadableOutput:
        return
    for each in found:
        assert each.job_id.isdigit()
        assert name_of(each.label)
        assert each.reason.isprintable() or not each.reason


def sections(*parts: tuple[str, str, int]) -> str:
    return "welcome\n" + "".join(f"\n{TOKEN} begin {n}\n{text}\n{TOKEN} end {rc}\n" for n, text, rc in parts)


def test_an_answer_is_whole_or_none() -> None:
    said = sections(("user", "1000\n", 0), ("jobs", f"{OURS}\n", 1))
    found = read_sections(said, TOKEN, ("user", "jobs"))
    assert found == {"user": ("1000\n", 0), "jobs": (OURS + "\n", 1)}
    for wrong in (said[:-4], said.replace("end 0", "end x"), sections(("user", "", 0), ("user", "", 0)), ""):
        with pytest.raises(UnreadableOutput):
            read_sections(wrong, TOKEN, ("user", "jobs"))


LEASES = """\
./ap1.x.1/lease:RTX 4090|1|0.40|low
./ap1.x.1/job:17
./ap1.x.1/begun:2
./ap1.x.1/told:preempt
./ap1.x.2/lease:A100|8|0|low
./ap1.x.2/job:not a number
./ap1.x.3/job:5
"""


def test_a_lease_is_what_lies_in_its_directory() -> None:
    one, other = read_leases(LEASES)
    assert (one.label, one.job_id, one.begun, one.notice, one.ended) == ("ap1.x.1", "17", 2, "preempt", "")
    assert (one.gpu, one.num_gpus, one.price, one.partition) == ("RTX 4090", 1, Decimal("0.40"), "low")
    assert (other.job_id, other.begun) == ("", 0)
    assert read_leases("") == ()


@pytest.mark.parametrize(
    "text",
    [
        "grep: no such file",
        "./x/lease:RTX 4090|1|-1|low",
        "./x/lease:",
        "./x/lease:a|1|1e9|low",
        "\n".join(f"./x{n}/lease:a|1|0|low" for n in range(MOST_LEASES + 1)),
    ],
)
def test_what_is_no_list_of_leases_is_none(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        read_leases(text)


def test_partitions_have_limits_gpus_and_a_way_to_preempt() -> None:
    found = read_partitions(NODES, PARTITIONS, CONFIG)
    low = found["low"]
    assert (low.is_up, low.idle, low.limit_s, low.grace_s, low.is_preemptible) == (True, 1, 3600, 5, True)
    assert low.gres == {"gpu": 8, "gpu:rtx4090": 2, "gpu:a100": 8, "shard": 8}
    assert (found["old"].is_up, found["old"].limit_s, found["old"].is_preemptible) == (False, None, False)
    assert (found["shut"].is_up, found["shut"].gres) == (False, {"gpu": 2})
    calm = read_partitions(NODES, PARTITIONS, "PreemptType = preempt/none\n")
    assert not calm["low"].is_preemptible
    with pytest.raises(UnreadableOutput):
        read_partitions("sinfo: error\n", PARTITIONS, CONFIG)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_partitions_of_anything_are_read_or_refused(nodes: str, partitions: str, config: str) -> None:
    try:
        read_partitions(f"S|a|up|1|1|idle|1|{nodes}|E", f"PartitionName=a {partitions}", config)
    except UnreadableOutput:
        return


def test_small_things_are_read() -> None:
    assert read_config(CONFIG)["KillWait"] == "30 sec"
    assert read_gres("gpu:a100:4(S:0-1,3),gpu:v100:2,mps:100") == {
        "gpu": 6, "gpu:a100": 4, "gpu:v100": 2, "mps": 100,
    }  # fmt: skip
    assert read_gres("(null)") == {}
    assert [read_span(each) for each in ("1-00:00:00", "30:00", "UNLIMITED", "infinite", "x")] == [
        86400, 1800, None, None, None,
    ]  # fmt: skip
    assert [read_time(each) for each in ("N/A", "Unknown", "1795954280")][:2] == [None, None]
    assert [read_submitted(each) for each in ("17\n", "17;far\n", "hello\n18\n", "", "job 17")] == [
        "17", "17", "18", None, None,
    ]  # fmt: skip


def test_the_accounting_says_who_cancelled() -> None:
    text = (
        "17|CANCELLED by 1000|0:15|1795954280|1795954881\n18|PREEMPTED|0:0|1|Unknown\n18|COMPLETED|0:0|1|1795954881\n"
    )
    found = read_ends(text + "nonsense|\n")
    assert found["17"] == SeenEnd("CANCELLED", "1000", datetime(2026, 11, 29, 12, 21, 21, tzinfo=UTC))
    assert found["18"].state == "COMPLETED"


@given(st.text(min_size=1, max_size=40))
def test_any_label_is_a_name_that_nothing_has_to_quote(label: str) -> None:
    name = name_of(label.encode("utf-8", "ignore").decode() or "x")
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%")
    assert not name.startswith(".")
