"""What starts a user's daemon at each login: a unit of ``systemd --user``, or on macOS an agent of ``launchd``."""

from __future__ import annotations

import sys
from xml.sax.saxutils import escape

from autopilot.system import IS_MACOS

COMMAND = ("-P", "-m", "autopilot.cli.main", "serve")
"""After the Python that this is installed in. -P: what lies in the directory where it is started is not imported."""

UNIT_STEPS = """\
save it as ~/.config/systemd/user/autopilot.service, end a daemon that runs already, then:
  systemctl --user daemon-reload && systemctl --user enable --now autopilot
it ends with your last login, unless: loginctl enable-linger"""
AGENT_STEPS = """\
save it as ~/Library/LaunchAgents/autopilot.plist, end a daemon that runs already, then:
  launchctl load -w ~/Library/LaunchAgents/autopilot.plist
it was not tried on a Mac"""

UNIT = """\
[Unit]
Description=autopilot, a bidder for GPU spot markets
# A daemon that is down answers no outbid and renews no permit: never stop trying to start it.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
Restart=always
RestartSec=10s
WatchdogSec=240s
TimeoutStartSec=120s
# A create on its way is waited for (90 s): cut off, it would have to be looked for at the market.
TimeoutStopSec=120s
KillMode=mixed
LimitCORE=0
UMask=0077

[Install]
WantedBy=default.target
"""

AGENT = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>autopilot</string>
  <key>ProgramArguments</key><array>{command}</array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><true/>
  <key>ExitTimeOut</key><integer>120</integer>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
"""


def tell_steps(*, macos: bool = IS_MACOS) -> str:
    """What to do with it."""
    return AGENT_STEPS if macos else UNIT_STEPS


def write_unit(log: str, *, macos: bool = IS_MACOS, python: str = sys.executable) -> str:
    """For this system, and for the Python that runs this. ``log``: the file of the daemon's log, where the system has
    no journal."""
    words = (python, *COMMAND)
    if macos:
        return AGENT.format(command="".join(f"<string>{escape(word)}</string>" for word in words), log=escape(log))
    return UNIT.format(command=" ".join(map(_quote, words)))


def _quote(word: str) -> str:
    """As systemd reads it: ``%`` and ``$`` have a meaning there."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{plain}"' if plain != word or " " in word else word
