"""The agent's decisions by playbook: what happened, then what it does. Times are market seconds."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped.machine import Machine
from autopilot.agent.shipped.orders import parse_orders, parse_taken_over
from autopilot.agent.shipped.states import ENDED
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.code import NO_CODE, JobCode
from autopilot.mailbox.order_shapes import Role, Work
from autopilot.mailbox.orders import CheckpointRef, build_orders, taken_over_orders

MEMORY: dict[str, Any] = {
    "orders_seq": 0,
    "permit_ttl_s": 900,
    "setup_done": False,
    "exit": None,
    "dirty": False,
    "run_epoch": 0,
}


def orders(
    role: Role = "run",
    seq: int = 1,
    run_epoch: int = 1,
    setup: str = "",
    restore: int | None = None,
    instance: str | None = None,
    inputs: dict[str, str] | None = None,
    code: JobCode = NO_CODE,
) -> Any:
    built = build_orders(
        LocalBlobStore(root=Path("/nowhere"), signing_key=b"k", base_url="http://store"),
        job_id="j",
        lease_id="l",
        instance_id=instance,
        run_epoch=run_epoch,
        seq=seq,
        permit_ttl_s=900,
        role=role,
        checkpoint_interval_s=300,
        work=Work(run="train", setup=setup, checkpoint_path="out", inputs=inputs or {}),
        restore=None if restore is None else CheckpointRef("l", restore, "m", ("a", "b")),
        heartbeat=None,
        code=code,
    )
    parsed = parse_orders(built.to_json())
    assert parsed is not None
    return parsed


def machine(instance: str = "", **memory: Any) -> Machine:
    return Machine(0, {**MEMORY, **memory}, instance=instance)


def running(now: float = 0) -> Machine:
    """A machine whose job has been started at ``now``."""
    m = machine()
    m.take_orders(orders(), now)
    assert m.decide(now) == "restore"
    m.finish_task("restore", True, now)
    assert m.decide(now) == "run"
    m.begin_process("run", now)
    return m


def test_commands_beside_the_job_may_run_for_as_long_as_it_is_to_run_here() -> None:
    m = machine()
    assert not m.may_exec(0)
    m.take_orders(orders(), 0)
    assert m.may_exec(0)
    m.take_orders(orders(seq=2), 60)
    assert m.may_exec(959)
    assert not m.may_exec(960)
    roles: tuple[Role, ...] = ("save_and_stop", "wait", "leave")
    for seq, role in enumerate(roles, start=3):
        m.take_orders(orders(role, seq), 100)
        assert not m.may_exec(100)
    m.take_orders(orders(seq=6), 100)
    assert m.may_exec(100)
    m.quit(101)
    assert not m.may_exec(101)


def test_on_a_machine_that_is_there_by_mistake_none_may_run() -> None:
    m = machine(instance="77")
    m.take_orders(orders(instance="78"), 0)
    assert not m.may_exec(0)


def test_a_command_beside_the_job_is_no_sign_of_its_life() -> None:
    m = running()
    m.take_orders(orders(seq=2) | {"exec": {"id": "c"}}, 50)
    assert m.claim.at == 0


def test_without_orders_it_does_nothing_until_the_permit_of_its_boot_is_over() -> None:
    m = machine()
    assert m.decide(899) is None
    assert m.decide(900) == "destroy"


def test_sets_up_restores_runs_checkpoints_and_reports() -> None:
    m = machine()
    m.take_orders(orders(setup="pip install x"), 0)
    assert m.decide(0) == "setup"
    m.begin_process("setup", 0)
    assert m.decide(1) is None
    m.end_process(0, 2, "")
    assert m.decide(2) == "restore"
    assert m.decide(2) is None
    m.finish_task("restore", True, 3)
    assert m.decide(3) == "run"
    m.begin_process("run", 3)
    assert m.decide(302) is None
    assert m.decide(303) == "checkpoint"
    m.finish_task("checkpoint", True, 310)
    assert m.is_dirty
    assert m.decide(609) is None
    m.end_process(0, 609, "then")
    assert m.decide(609) == "checkpoint"
    m.finish_task("checkpoint", True, 610)
    assert m.decide(610) == "report"
    m.finish_task("report", True, 611)
    assert m.decide(611) is None
    assert m.state() == "finished"
    assert vars(m.exit) == {
        "run_epoch": 1,
        "exit_code": 0,
        "signal": None,
        "reason": "exited",
        "finished_at": "then",
        "has_saved": False,
    }


def test_the_exit_is_reported_only_after_the_last_checkpoint_is_up() -> None:
    m = running()
    assert m.decide(300) == "checkpoint"
    m.end_process(0, 301, "")
    assert m.decide(301) == "abandon"
    assert m.decide(301) is None
    m.finish_task("checkpoint", False, 302)
    assert m.decide(302) == "checkpoint"
    assert m.decide(303) is None
    m.finish_task("checkpoint", False, 303)
    assert m.decide(304) is None
    assert m.decide(309) == "checkpoint"


def test_an_upload_that_ends_before_it_can_be_abandoned_is_followed_by_the_last_one() -> None:
    m = running()
    assert m.decide(300) == "checkpoint"
    m.end_process(0, 301, "")
    assert m.decide(301) == "abandon"
    m.finish_task("checkpoint", True, 302)
    assert m.decide(302) == "checkpoint"
    m.finish_task("checkpoint", True, 303)
    assert m.decide(303) == "report"


def test_only_a_higher_seq_renews_the_permit() -> None:
    m = machine(orders_seq=7)
    assert m.take_orders(orders("wait", seq=7), 100)
    assert m.permit_until == 900
    assert not m.take_orders(orders("run", seq=6), 200)
    assert m.orders is not None
    assert m.orders["role"] == "wait"
    m.take_orders(orders("wait", seq=8), 300)
    assert m.permit_until == 1200


LONG_S = 6 * 3600


def test_a_long_permit_counts_from_the_last_look_that_did_not_show_it() -> None:
    m = machine()
    m.take_orders(orders(seq=1) | {"permit_ttl_s": LONG_S}, 100)
    assert m.permit_until == 100 + 900, "the machine may have read them long after they were written"
    m.take_orders(orders(seq=1) | {"permit_ttl_s": LONG_S}, 130)
    m.take_orders(orders(seq=2) | {"permit_ttl_s": LONG_S}, 160)
    assert m.permit_until == 130 + LONG_S
    m.take_orders(orders(seq=3) | {"permit_ttl_s": LONG_S}, 160 + 5 * 3600)
    assert m.permit_until == 160 + LONG_S, "it was cut off for five hours, and its daemon may be gone since"
    m.take_orders(orders(seq=4) | {"permit_ttl_s": LONG_S}, 160 + LONG_S - 1)
    assert m.permit_until == 160 + 5 * 3600 + LONG_S


def test_a_machine_that_slept_has_no_second_long_permit() -> None:
    m = machine()
    m.take_orders(orders(seq=1) | {"permit_ttl_s": LONG_S}, 100)
    m.take_orders(orders(seq=2) | {"permit_ttl_s": LONG_S}, 130)
    memory = MEMORY | m.to_remember() | {"permit_ttl_s": LONG_S}
    woken_at = 3 * 86_400
    again = Machine(woken_at, memory)
    assert again.permit_until == woken_at + 120, "to look for newer orders"
    again.take_orders(orders(seq=9) | {"permit_ttl_s": LONG_S}, woken_at + 5)
    assert again.permit_until == woken_at + 5 + 900
    again.take_orders(orders(seq=10) | {"permit_ttl_s": LONG_S}, woken_at + 35)
    assert again.permit_until == woken_at + 5 + LONG_S, "its daemon is there: the next orders came"


def test_where_the_host_counts_the_permit_the_agent_counts_alike() -> None:
    m = machine()
    m.take_orders(orders(seq=1) | {"permit_ttl_s": LONG_S, "host": {"num_gpus": 1}}, 100)
    assert m.permit_until == 100 + LONG_S


def test_without_orders_there_is_nowhere_to_save_to_and_the_machine_goes_all_the_same() -> None:
    """Restarted without a connection: one that was left stopped would bill its disk until somebody looks."""
    m = machine(dirty=True)
    assert m.decide(899) is None
    assert m.decide(900) == "destroy"


def test_an_expired_permit_saves_then_destroys_and_late_orders_change_nothing() -> None:
    m = running()
    m.checkpoint_at = 10_000
    assert m.decide(900) == "term"
    m.take_orders(orders(seq=2), 901)
    assert m.decide(901) is None
    assert m.decide(960) == "kill"
    m.end_process(-9, 961, "")
    assert m.decide(961) == "checkpoint"
    m.finish_task("checkpoint", True, 962)
    assert m.decide(962) == "destroy"
    m.finish_task("destroy", False, 963)
    assert m.decide(964) is None
    assert m.decide(968) == "destroy"
    m.finish_task("destroy", True, 969)
    assert m.decide(970) is None
    assert m.decide(1029) == "destroy"


@pytest.mark.parametrize("is_dirty", [True, False])
def test_a_machine_that_has_no_network_asks_for_its_end_every_minute(is_dirty: bool) -> None:
    """It comes back after hours, and bills until the market hears of it."""
    m = machine(dirty=is_dirty)
    now = 900.0 if is_dirty else 901.0
    assert m.decide(now) == "destroy"
    for _ in range(20):
        m.finish_task("destroy", False, now)
        now += 60
        assert m.decide(now) == "destroy"


@pytest.mark.parametrize("hangs", [True, False])
def test_when_the_last_upload_fails_or_hangs_the_machine_goes_in_bounded_time(hangs: bool) -> None:
    m = running()
    m.decide(900)
    m.end_process(-15, 901, "")
    assert m.decide(901) == "checkpoint"
    if not hangs:
        m.finish_task("checkpoint", False, 902)
        assert m.decide(907) == "checkpoint"
        m.finish_task("checkpoint", False, 907)
    assert m.decide(1020) == "destroy"


def test_half_of_the_time_after_a_permit_is_the_process_s_and_the_rest_is_for_its_upload() -> None:
    m = running()
    m.checkpoint_at = 10_000
    assert m.decide(900) == "term"
    assert m.decide(944) is None
    assert m.decide(945) == "kill"
    m.end_process(-9, 946, "")
    assert m.decide(946) == "checkpoint"
    m.finish_task("checkpoint", False, 947)
    assert m.decide(989) == "checkpoint"
    assert m.decide(990) == "destroy", "what it could not save goes with it"


def test_an_end_that_was_not_told_yet_is_told_after_the_permit_too() -> None:
    m = running()
    m.end_process(0, 100, "then")
    assert m.decide(100) == "checkpoint"
    m.finish_task("checkpoint", True, 101)
    assert m.decide(900) == "report"
    m.finish_task("report", True, 901)
    assert m.decide(901) == "destroy"


def test_a_process_that_cannot_be_killed_does_not_keep_the_machine() -> None:
    m = running()
    assert m.decide(900) == "term"
    assert m.decide(960) == "kill"
    assert m.decide(1020) == "destroy"


def test_a_fenced_machine_ends_the_job_and_uploads_nothing() -> None:
    for role in ("leave", "wait"):
        m = running()
        m.take_orders(orders(role, seq=2, run_epoch=2), 10)
        assert m.decide(10) == "term"
        m.end_process(-15, 11, "")
        assert m.decide(12) is None
        assert m.exit is None
        assert m.decide(5000) == "destroy"


def test_a_machine_that_must_leave_begins_nothing() -> None:
    m = machine()
    m.take_orders(orders("leave", setup="pip install x", restore=3), 10)
    assert m.decide(10) is None
    assert m.decide(899) is None
    assert m.decide(910) == "destroy"


def test_save_and_stop_is_saved_only_when_the_upload_is_done_and_run_goes_on_from_it() -> None:
    m = running()
    m.take_orders(orders("save_and_stop", seq=2), 10)
    assert (m.decide(10), m.is_saved()) == ("term", False)
    m.end_process(0, 11, "")
    assert (m.decide(11), m.is_saved(), m.state()) == ("checkpoint", False, "saving")
    m.finish_task("checkpoint", True, 12)
    assert m.is_saved()
    assert m.exit is None
    m.take_orders(orders("run", seq=3), 13)
    assert not m.is_saved()
    assert m.decide(13) == "restore"


def test_promoted_again_while_running_it_starts_over_from_the_newest_checkpoint() -> None:
    m = running()
    m.take_orders(orders(seq=2, run_epoch=3), 10)
    assert m.decide(10) == "term"
    m.end_process(-15, 11, "")
    assert m.decide(11) == "restore"
    m.finish_task("restore", True, 12)
    assert m.decide(12) == "run"
    m.begin_process("run", 12)
    assert m.epoch == 3


def test_waiting_it_prefetches_each_checkpoint_once() -> None:
    m = machine()
    m.take_orders(orders("wait", restore=4), 0)
    assert m.decide(0) == "prefetch"
    m.finish_task("prefetch", True, 1)
    m.take_orders(orders("wait", seq=2, restore=4), 15)
    assert m.decide(15) is None
    m.take_orders(orders("wait", seq=3, restore=5), 30)
    assert m.decide(30) == "prefetch"


def test_a_machine_that_the_orders_do_not_name_destroys_itself_for_good() -> None:
    m = machine(instance="78")
    m.take_orders(orders("wait", setup="pip install x"), 0)
    assert m.decide(0) == "setup"
    m.begin_process("setup", 0)
    m.take_orders(orders(seq=2, setup="pip install x", instance="77"), 10)
    assert m.decide(10) == "term"
    m.end_process(-15, 11, "")
    assert m.decide(11) == "destroy"
    assert m.state() == "expired"
    m.finish_task("destroy", False, 12)
    m.take_orders(orders(seq=3), 100)
    assert m.decide(100) == "destroy"


def test_one_that_worked_all_the_same_saves_nothing_over_the_other_ones_work() -> None:
    m = machine(instance="78")
    m.take_orders(orders(), 0)
    assert m.decide(0) == "restore"
    m.finish_task("restore", True, 0)
    assert m.decide(0) == "run"
    m.begin_process("run", 0)
    m.take_orders(orders(seq=2, instance="77"), 10)
    assert m.decide(10) == "term"
    m.end_process(0, 11, "then")
    assert m.decide(11) == "destroy"


@pytest.mark.parametrize(("own", "named"), [("77", "77"), ("77", ""), ("", "77")])
def test_one_that_is_named_or_may_be_runs(own: str, named: str) -> None:
    m = machine(instance=own)
    m.take_orders(orders(instance=named), 0)
    assert m.decide(0) == "restore"


def test_a_finished_job_is_not_run_again_in_its_epoch() -> None:
    done = {"run_epoch": 2, "exit_code": 0, "signal": None, "reason": "exited", "finished_at": ""}
    m = machine(exit=done)
    m.take_orders(orders(run_epoch=2), 0)
    assert m.decide(0) == "report"
    m.finish_task("report", True, 0)
    assert m.decide(1) is None
    m.take_orders(orders(seq=2, run_epoch=3), 2)
    assert m.decide(2) == "restore"


def test_a_run_that_failed_soon_is_followed_by_a_restore_despite_local_files() -> None:
    for has_saved, ended_at, begins_by in ((False, 10, "restore"), (True, 10, "run"), (False, 400, "run")):
        m = machine()
        m.take_orders(orders(restore=3), 0)
        assert m.decide(5) == "restore"
        m.finish_task("restore", True, 6)
        assert m.decide(6) == "run"
        m.begin_process("run", 6)
        m.end_process(1, ended_at, "then", has_saved)
        for task in ("checkpoint", "report"):
            assert m.decide(ended_at) == task
            m.finish_task(task, True, ended_at)
        m.take_orders(orders(seq=2, run_epoch=2, restore=2), ended_at + 1)
        assert m.decide(ended_at + 1) == begins_by


def failed(run_epoch: int = 1, code: int = 1) -> Machine:
    """A machine that was set up, and whose command has failed and was reported."""
    m = machine()
    m.take_orders(orders(setup="make", run_epoch=run_epoch, restore=3), 0)
    assert m.decide(0) == "setup"
    m.begin_process("setup", 0)
    m.end_process(0, 5, "")
    assert m.decide(5) == "restore"
    m.finish_task("restore", True, 6)
    assert m.decide(6) == "run"
    m.begin_process("run", 6)
    m.end_process(code, 10, "then", has_saved=True)
    for task in ("checkpoint", "report"):
        assert m.decide(10) == task
        m.finish_task(task, True, 10)
    assert (m.decide(11), m.state()) == (None, "finished")
    return m


def test_with_a_new_run_epoch_it_starts_over_without_setup_and_with_the_files_that_are_there() -> None:
    m = failed()
    m.take_orders(orders(seq=2, setup="make", restore=4), 20)
    assert m.decide(20) is None, "the epoch is the old one"
    assert m.take_orders(orders(seq=2, run_epoch=2, setup="make", restore=4), 30)
    assert (m.exit, m.state(), m.to_remember()["exit"]) == (None, "waiting", None)
    assert m.decide(30) == "run"
    m.begin_process("run", 30)
    assert (m.epoch, m.state()) == (2, "running")
    m.end_process(0, 40, "later")
    assert m.decide(40) == "checkpoint", "the second run has a last checkpoint, too"
    assert m.exit is not None
    assert (m.exit.run_epoch, m.exit.exit_code) == (2, 0)
    m.finish_task("checkpoint", True, 41)
    assert m.decide(41) == "report"


def test_orders_of_the_run_before_that_come_late_do_not_end_the_new_one() -> None:
    m = failed()
    m.take_orders(orders(seq=2, run_epoch=2, setup="make"), 20)
    assert m.decide(20) == "run"
    m.begin_process("run", 20)
    assert not m.take_orders(orders(seq=2, run_epoch=1, setup="make"), 30)
    assert m.decide(30) is None
    assert m.take_orders(orders(seq=3, run_epoch=1), 30), "an older ledger has been restored"


def test_a_report_that_is_on_its_way_keeps_the_new_run_from_beginning_and_says_nothing_of_it() -> None:
    m = failed()
    m.result = ENDED
    assert m.decide(20) == "report", "its answer was lost"
    m.take_orders(orders(seq=2, run_epoch=2, setup="make"), 21)
    assert m.decide(21) is None
    m.finish_task("report", True, 22)
    assert m.decide(22) == "run"
    m.begin_process("run", 22)
    m.end_process(1, 30, "")
    m.finish_task(str(m.decide(30)), True, 31)
    assert m.decide(31) == "report"


def test_a_setup_that_failed_is_run_again_and_what_was_never_restored_is() -> None:
    m = machine()
    m.take_orders(orders(setup="make", restore=3), 0)
    assert m.decide(0) == "setup"
    m.begin_process("setup", 0)
    m.end_process(2, 5, "then")
    assert m.exit is not None
    assert (m.exit.run_epoch, m.exit.reason) == (1, "setup_failed")
    assert m.decide(5) == "report"
    m.finish_task("report", True, 6)
    m.take_orders(orders(seq=2, run_epoch=2, setup="make", restore=3), 10)
    assert m.decide(10) == "setup"
    m.begin_process("setup", 10)
    assert m.state() == "setting_up"
    m.end_process(0, 15, "")
    assert m.decide(15) == "restore"


@pytest.mark.parametrize("dirty", [False, True], ids=["saved", "unsaved"])
def test_after_a_restart_the_next_attempt_begins_at_the_newest_checkpoint(dirty: bool) -> None:
    m = machine(**{**failed().to_remember(), "dirty": dirty})
    m.take_orders(orders(seq=2, run_epoch=2, setup="make", restore=4), 20)
    assert m.decide(20) == "restore"
    m.finish_task("restore", True, 21)
    assert m.decide(21) == "run"


@pytest.mark.parametrize("role", ["wait", "save_and_stop", "leave"])
def test_only_orders_to_run_start_it_over(role: Role) -> None:
    m = failed()
    m.take_orders(orders(role, seq=2, run_epoch=2, setup="make", restore=4), 20)
    assert m.decide(20) not in ("run", "restore")
    assert m.exit is not None


def test_told_to_terminate_it_saves_if_it_can_and_quits_in_time() -> None:
    m = running()
    m.quit(10)
    assert m.decide(10) == "term"
    m.end_process(-15, 10.5, "")
    assert m.decide(10.5) == "checkpoint"
    assert m.decide(13.9) is None
    assert m.decide(14) == "quit"


def test_told_to_terminate_before_its_orders_are_here_it_waits_for_where_to_save() -> None:
    """After a restart, with work of the former run on its disk."""
    m = machine(**{**failed().to_remember(), "dirty": True})
    m.quit(20)
    assert m.decide(20) is None
    assert m.decide(24) == "quit"


def test_told_how_long_it_has_it_saves_for_so_long() -> None:
    m = running()
    m.quit(10, 44)
    assert m.decide(10) == "term"
    assert m.decide(31.9) is None
    assert m.decide(32) == "kill"
    m.quit(33, 5)
    m.end_process(-9, 33, "")
    assert m.decide(33) == "checkpoint"
    assert m.decide(53.9) is None, "the first word counts"
    assert m.decide(54) == "quit"


def test_a_notice_that_may_be_withdrawn_is_answered_by_one_checkpoint() -> None:
    m = running()
    m.take_notice(5)
    assert m.is_due(5)
    assert m.decide(5) == "checkpoint"
    m.finish_task("checkpoint", True, 8)
    assert m.decide(8) is None
    assert not m.is_due(9)


def test_a_checkpoint_that_was_under_way_is_no_answer_to_a_notice() -> None:
    m = running()
    m.take_notice(5)
    assert m.decide(5) == "checkpoint"
    m.take_notice(6)
    m.finish_task("checkpoint", True, 8)
    assert m.decide(8) == "checkpoint"
    m.finish_task("checkpoint", True, 9)
    assert m.decide(9) is None


@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["wait", "run", "save_and_stop", "leave"])), max_size=30)
)
def test_the_job_runs_only_when_ordered_and_the_end_of_the_permit_is_bounded(
    steps: list[tuple[int, Role]],
) -> None:
    """A world in which every command succeeds at once, and a permit that is never renewed after the last orders."""
    m, now, seq = machine(), 0.0, 0
    for wait_s, role in [*steps, (1100, "run")]:
        if wait_s < 1000:
            seq += 1
            m.take_orders(orders(role, seq=seq, run_epoch=seq), now)
        until = now + wait_s
        while now < until:
            command = m.decide(now)
            assert command != "run" or (m.orders is not None and m.orders["role"] == "run")
            if command == "run":
                m.begin_process("run", now)
            elif command in ("term", "kill"):
                m.end_process(-15, now, "")
            elif command == "destroy":
                assert now >= m.permit_until
                return
            elif command is not None:
                m.finish_task(command, True, now)
            else:
                now += 5
    raise AssertionError("the machine outlived its permit")


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"role": "dance"},
        {"seq": -1},
        {"seq": True},
        {"instance": 77},
        {"run_epoch": 1.5},
        {"permit_ttl_s": None},
        {"work": {"run": "x"}},
        {"put_urls": []},
        {"restore": {"lease": "l", "n": 1, "first_part": 0, "manifest_url": 3, "part_urls": []}},
        {"restore": {"lease": "l", "n": 1, "first_part": -1, "manifest_url": "u", "part_urls": []}},
        {"exec": {"id": "c", "command": "true", "timeout_s": 60, "url": "u"}},
        {"exec": {"id": "c", "command": "true", "timeout_s": -1, "issued_at": 0, "url": "u"}},
        {"exec": {"id": "c", "command": ["true"], "timeout_s": 60, "issued_at": 0, "url": "u"}},
        {"exec": "true"},
    ],
)
def test_orders_that_are_not_whole_are_refused(change: dict[str, Any]) -> None:
    assert parse_orders(json.dumps({**orders(), **change}).encode()) is None


@given(st.binary(max_size=200))
def test_noise_is_no_orders(data: bytes) -> None:
    assert parse_orders(data) is None


def test_what_fails_for_ever_without_a_word_from_the_store_is_tried_for_ever() -> None:
    m, now = machine(), 0.0
    m.take_orders(orders(), now)
    m.permit_until = inf
    for _ in range(1100):
        assert m.decide(now) == "restore"
        m.finish_task("restore", False, now)
        assert now < m.tries["restore"].not_before <= now + 300
        now = m.tries["restore"].not_before


CODE = JobCode("copy", "a" * 64, files=3, size_bytes=2700, part_count=3, index_bytes=400)


@pytest.mark.parametrize("task", ["restore", "inputs", "code"])
def test_a_command_that_cannot_be_begun_here_has_failed_after_twenty_minutes(task: str) -> None:
    m, now = machine(), 0.0
    for epoch in (1, 2):
        began = now
        for seq in range(10):
            m.take_orders(orders(seq=100 * epoch + seq, run_epoch=epoch, **asked_for(task)), now)
            assert m.decide(now) == task
            assert m.exit is None or m.exit.run_epoch < epoch
            m.finish_task(task, False, now)
            now = m.tries[task].not_before
        assert 1200 <= now - began <= 3000
        assert m.exit is not None
        assert (m.exit.run_epoch, m.exit.exit_code, m.exit.reason) == (epoch, 1, f"{task}_failed")
        assert m.decide(now) == "report"
        m.finish_task("report", True, now)
        assert (m.decide(now), m.state()) == (None, "finished")


def asked_for(task: str) -> dict[str, Any]:
    asked: dict[str, dict[str, Any]] = {
        "inputs": {"inputs": {"data": "https://example.org/data"}},
        "code": {"code": CODE},
    }
    return asked.get(task, {})


def test_code_comes_first_once_and_before_the_checkpoint() -> None:
    m = machine()
    asked = orders(setup="pip install .", restore=3, inputs={"data": "https://example.org/d"}, code=CODE)
    m.take_orders(asked, 0)
    for task in ("code", "inputs"):
        assert (m.state(), m.decide(0)) == ("setting_up", task)
        m.finish_task(task, True, 0)
    assert m.decide(0) == "setup"
    m.begin_process("setup", 0)
    m.end_process(0, 0, "")
    assert m.decide(0) == "restore"
    remembered = m.to_remember()
    assert remembered["code_done"]
    again = machine(**remembered)
    again.take_orders(asked, 0)
    assert again.decide(0) == "inputs", "what lies there is the job's now"


def test_orders_of_a_daemon_that_knows_no_code_are_read() -> None:
    old = {name: value for name, value in orders().items() if name != "code"}
    assert parse_orders(json.dumps(old).encode()) == old
    m = machine()
    m.take_orders(old, 0)
    assert m.decide(0) == "restore"
    for harm in ({"size": -1}, {"sha256": None}, {"part_urls": [1]}, {"first_part": "0"}):
        whole = orders(code=CODE)
        assert len(whole["code"]["part_urls"]) == 4
        whole["code"].update(harm)
        assert parse_orders(json.dumps(whole).encode()) is None


def test_another_checkpoint_to_restore_gets_its_own_tries() -> None:
    m, now = machine(), 0.0
    for seq in range(1, 19):
        assert m.exit is None
        m.take_orders(orders(seq=seq, restore=1 if seq < 9 else 0), now)
        assert m.decide(now) == "restore"
        m.finish_task("restore", False, now)
        now = m.tries["restore"].not_before
    assert m.exit is not None, "the tenth of its own"


def test_a_new_home_waits_only_once_it_has_all_that_the_command_needs() -> None:
    m = machine()
    m.take_orders(orders("wait", setup="pip install x", inputs={"data": "https://example.org/d"}, restore=3), 0)
    assert m.state() == "setting_up", "not yet begun is not ready"
    assert m.decide(0) == "inputs"
    m.finish_task("inputs", False, 1)
    assert m.state() == "setting_up", "nor is failed"
    now = m.tries["inputs"].not_before
    assert m.decide(now) == "inputs"
    m.finish_task("inputs", True, now)
    assert m.decide(now) == "setup"
    m.begin_process("setup", now)
    assert m.state() == "setting_up"
    m.end_process(0, now, "")
    assert m.state() == "restoring"
    assert m.decide(now) == "prefetch"
    m.finish_task("prefetch", False, now)
    assert m.state() == "restoring"
    now = m.tries["prefetch"].not_before
    assert m.decide(now) == "prefetch"
    m.finish_task("prefetch", True, now)
    assert m.state() == "waiting"
    m.take_orders(
        orders("wait", seq=2, setup="pip install x", inputs={"data": "https://example.org/d"}, restore=4), now
    )
    assert m.decide(now) == "prefetch"
    assert m.state() == "waiting", "what a newer checkpoint adds is no reason to keep the old machine longer"


def woken(slept_s: float) -> Machine:
    """A machine whose permit of 900 s was 300 s old when it fell asleep, at its next boot."""
    before = Machine(1000, dict(MEMORY))
    before.take_orders(orders(), 1000)
    return Machine(1300 + slept_s, {**MEMORY, **before.to_remember(), "permit_ttl_s": 900})


def test_a_permit_runs_on_while_its_machine_sleeps() -> None:
    assert woken(slept_s=100).permit_until == 1900


def test_a_machine_that_wakes_after_its_permit_has_time_to_look_for_newer_orders() -> None:
    late = woken(slept_s=5000)
    assert late.permit_until == 6300 + 120
    assert late.decide(6300 + 119) != "destroy"
    late.take_orders(orders(seq=2), 6350)
    assert late.permit_until == 6350 + 900


def test_a_restarted_host_gets_at_most_a_whole_permit() -> None:
    assert woken(slept_s=-1290).permit_until == 10 + 900


def test_the_first_boot_has_a_whole_permit_and_the_next_one_what_is_left_of_it() -> None:
    first = Machine(0, dict(MEMORY))
    assert first.permit_until == 900
    assert Machine(400, {**MEMORY, **first.to_remember()}).permit_until == 900


def test_a_machine_that_wakes_takes_the_orders_that_it_knew_before_any_run() -> None:
    m = machine(orders_seq=3)
    assert m.take_orders(orders("wait", 3, run_epoch=0), 0)


@pytest.mark.parametrize("is_expired", [False, True])
def test_what_its_user_has_taken_over_ends_the_job_saves_nothing_and_is_not_destroyed(is_expired: bool) -> None:
    m = running()
    now = 901.0 if is_expired else 100.0
    if is_expired:
        assert m.decide(now) == "term", "it is on its way out"
    m.give_up(parse_taken_over(taken_over_orders("77")) or "", now)
    assert [m.decide(now)] == [None if is_expired else "term"]
    assert m.decide(now + 61) == "kill"
    m.end_process(-9, now + 62, "t")
    assert not m.is_dirty
    assert [m.decide(at) for at in (now + 63, 901, 1000, 1e6)] == [None] * 4
    m.take_orders(orders(seq=9, run_epoch=2), 1e6)
    assert m.decide(1e6) is None
    assert not m.may_exec(1e6)
    assert m.state() == "left"
    woken = Machine(0, {**MEMORY, **m.to_remember()})
    assert woken.decide(1e6) is None
    woken.quit(1e6)
    assert woken.decide(1e6) == "quit"
    assert woken.to_remember()["given_up"]


def test_an_upload_that_is_under_way_when_its_user_takes_the_machine_is_cut_short() -> None:
    m = running()
    assert m.decide(300) == "checkpoint"
    m.give_up("77", 301)
    assert m.decide(301) == "abandon"
    assert m.decide(301) == "term"


def test_another_machine_of_the_same_lease_is_not_given_up() -> None:
    m = machine(instance="78")
    m.take_orders(orders(instance="78"), 0)
    m.give_up("77", 1)
    assert m.decide(2) == "restore"
    assert m.decide(901) == "destroy"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"[" * 100_000, b'{"v":2,"taken_over":"7"}', b'{"v":1}', b'{"v":1,"taken_over":7}']
)
def test_only_a_plain_word_gives_a_machine_up(data: bytes) -> None:
    assert parse_taken_over(data) is None
    assert parse_taken_over(json.dumps(orders()).encode()) is None
