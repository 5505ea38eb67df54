"""What a host tells the agent in its container by files, and what the agent tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autopilot.agent.shipped.log import Log
from autopilot.agent.shipped.markets import ask_market
from autopilot.agent.shipped.surroundings import Notice, read_env_file
from autopilot.agent.shipped.web import Web


def env_of(root: Path, **more: str) -> dict[str, str]:
    return {"AUTOPILOT_ROOT": str(root), **more}


def test_variables_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "env.json").write_text('{"KEY": "value"}')
    env = env_of(tmp_path, AUTOPILOT_ENV_FILE="/env.json", OTHER="1")
    read_env_file(env)
    assert (env["KEY"], env["OTHER"]) == ("value", "1")
    before = env_of(tmp_path)
    read_env_file(before)
    assert before == env_of(tmp_path), "no machine but a virtual one has such a file"


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', "{"])
def test_a_file_of_something_else_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "env.json").write_text(text)
    with pytest.raises(ValueError, match=r"something else|Expecting"):
        read_env_file(env_of(tmp_path, AUTOPILOT_ENV_FILE="/env.json"))


def test_a_wish_is_written_where_the_host_looks(tmp_path: Path) -> None:
    ask_market(env_of(tmp_path, AUTOPILOT_WISH="/wish"), Web(), Log(1))
    assert (tmp_path / "wish").read_text() == "destroy"
    with pytest.raises(OSError, match="no machine id"):
        ask_market(env_of(tmp_path), Web(), Log(1))


def test_a_notice_comes_changes_and_goes(tmp_path: Path) -> None:
    notice = Notice(env_of(tmp_path, AUTOPILOT_NOTICE="/notice", AUTOPILOT_GRACE_S="44"))
    assert not notice.look()
    soft = {"kind": "preempt", "ends_at": "2026-11-26T12:00:00Z", "soft": True, "grace_s": 0}
    (tmp_path / "notice").write_text(json.dumps(soft))
    assert notice.look()
    assert not notice.look()
    assert notice.report() == {"kind": "preempt", "ends_at": "2026-11-26T12:00:00Z"}
    assert (notice.is_hard, notice.grace_s) == (False, 44)
    (tmp_path / "notice").write_text("{")
    assert not notice.look(), "half a file is no news"
    (tmp_path / "notice").write_text(json.dumps(soft | {"soft": False, "grace_s": 18}))
    assert notice.look()
    assert (notice.is_hard, notice.grace_s) == (True, 18)
    (tmp_path / "notice").unlink()
    assert notice.look()
    assert notice.report() is None


@pytest.mark.parametrize("grace", ["", "soon", "-5", "nan"])
def test_a_grace_that_cannot_be_read_is_none(grace: str, tmp_path: Path) -> None:
    assert Notice(env_of(tmp_path, AUTOPILOT_GRACE_S=grace)).grace_s == 0
    assert not Notice({}).look()
