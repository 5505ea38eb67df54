"""What the agent on a machine says that it is doing."""

from __future__ import annotations

from enum import StrEnum


class AgentState(StrEnum):
    UNHEARD = ""
    """It has not spoken since the machine was rented, or woken. No agent reports this."""
    WAITING = "waiting"
    RESTORING = "restoring"
    SETTING_UP = "setting_up"
    RUNNING = "running"
    SAVING = "saving"
    FINISHED = "finished"
    EXPIRED = "expired"
    """It had no permit any more."""
    LEFT = "left"
    """It was told to leave."""


PREPARING = frozenset({AgentState.WAITING, AgentState.RESTORING, AgentState.SETTING_UP})
"""Before the user's command is started."""
COMMANDS = frozenset({AgentState.SETTING_UP, AgentState.RUNNING})
"""The user's setup or command runs."""
AT_WORK = frozenset({AgentState.RUNNING, AgentState.SAVING, AgentState.FINISHED})
"""The user's command was started."""
ENDED = frozenset({AgentState.EXPIRED, AgentState.LEFT})
"""The agent has given its machine up."""
