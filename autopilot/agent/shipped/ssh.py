"""A login for the user on this machine: an SSH server of its own, for one key, for as long as the job is to run here.

The image brings ``sshd`` and the market a port of its own; without either no login is possible, and it says why.
Who logs in is the agent's user, root in most images, in the job's work directory and with its environment.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from .child import MARK, SSH, Child
from .execs import Surroundings
from .log import Log
from .markets import public_address
from .offspring import forget_process, list_beneath, list_processes, start_process

KEY_VARIABLE = "AUTOPILOT_SSH_KEY"
AGAIN_S = 30.0
STARTS_WITHIN_S = 0.5
PLACES = "/usr/sbin:/usr/local/sbin:/sbin"
SFTP = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")
OF_THE_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "OLDPWD", "SHLVL", MARK)
"""Variables that the login has of its own."""

CONFIG = """\
Port {port}
HostKey {home}/host_key
PidFile none
AuthorizedKeysFile {home}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitEmptyPasswords no
UsePAM no
StrictModes no
AllowUsers {user}
AllowTcpForwarding local
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
PrintMotd no
LogLevel FATAL
LoginGraceTime 30
MaxAuthTries 3
MaxStartups 10:30:30
ClientAliveInterval 30
ClientAliveCountMax 4
ForceCommand {home}/enter
"""
ENTER = """\
#!/bin/sh
. {home}/env
cd {workdir} || exit 1
[ -z "$SSH_ORIGINAL_COMMAND" ] || exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
exec "${{SHELL:-/bin/sh}}"
"""


class Ssh:
    """``mind`` is called by one thread; opening takes its time and has one of its own."""

    def __init__(self, home: str, child: Child, log: Log, surroundings: Surroundings, env: Mapping[str, str]) -> None:
        self.home, self.child, self.log, self.surroundings, self.env = home, child, log, surroundings, env
        self.mark = f"{child.token}-ssh"
        self.key = env.get(KEY_VARIABLE, "")
        self.fault = self.user = ""
        self.server: subprocess.Popen[bytes] | None = None
        self.thread: threading.Thread | None = None
        self.not_before = 0.0
        self.is_wanted = False

    def mind(self, may_run: bool) -> None:
        """Start the server, keep it running, or stop it and end its sessions."""
        self.is_wanted = may_run and bool(self.key)
        if self.thread is not None and self.thread.is_alive():
            return
        if self.server is not None and (not self.is_wanted or self.server.poll() is not None):
            self.shut()
        if self.is_wanted and self.server is None and time.monotonic() >= self.not_before:
            self.not_before = time.monotonic() + AGAIN_S
            self.thread = threading.Thread(target=self.try_to_open, daemon=True)
            self.thread.start()

    def report(self) -> dict[str, Any] | None:
        """For the heartbeat: where to log in, or why that is impossible; None if no login is wanted."""
        address = public_address(self.env)
        if not self.key or not (self.fault or self.server):
            return None
        if self.fault or address is None:
            return {"fault": self.fault}
        return {"host": address[0], "port": address[1], "user": self.user}

    def try_to_open(self) -> None:
        try:
            self.open()
            self.fault = ""
            self.log.resolve("ssh")
        except (OSError, LookupError, subprocess.SubprocessError, ValueError) as error:
            self.fault = str(error)
            self.log.trouble("ssh", self.fault)

    def open(self) -> None:
        """Raises ``OSError``, ``LookupError``, ``ValueError``, ``SubprocessError``."""
        program, address = find_server(self.env), public_address(self.env)
        if address is None:
            raise LookupError("the market gave this machine no port that can be reached from outside")
        workdir, env, _ = self.surroundings()
        self.user = user_name()
        self.furnish(address[1], workdir, env)
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", 0o755, exist_ok=True)  # where it locks itself in before anybody is known
        log = os.path.join(self.home, "log")
        with open(log, "wb") as file:
            server = start_process(
                SSH,
                [program, "-D", "-e", "-f", os.path.join(self.home, "config")],
                env={"PATH": env.get("PATH", os.defpath), MARK: self.mark},
                stdout=subprocess.DEVNULL,
                stderr=file,
            )
        try:
            server.wait(STARTS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.server = server
            return
        forget_process(server)
        with open(log, errors="replace") as file:
            raise OSError(f"sshd does not start: {file.read(2000).strip()[-200:]}")

    def furnish(self, port: int, workdir: str, env: Mapping[str, str]) -> None:
        """Raises ``OSError``, ``LookupError``, ``SubprocessError``."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        key = os.path.join(self.home, "host_key")
        if not os.path.exists(key):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key]
            subprocess.run(command, check=True, capture_output=True, timeout=30)
        passed = {name: value for name, value in env.items() if name not in OF_THE_LOGIN}
        exports = [f"export {name}={shlex.quote(value)}\n" for name, value in passed.items() if is_variable(name)]
        exports.append(f"export {MARK}={self.mark}\n")
        config = CONFIG.format(port=port, home=self.home, user=self.user)
        sftp = next((path for path in SFTP if os.path.exists(path)), "")
        config += f"Subsystem sftp {sftp}\n" if sftp else ""
        enter = ENTER.format(home=shlex.quote(self.home), workdir=shlex.quote(workdir))
        self.write("config", config)
        self.write("authorized_keys", self.key + "\n")
        self.write("env", "".join(exports))
        self.write("enter", enter, 0o700)

    def write(self, name: str, text: str, mode: int = 0o600) -> None:
        path = os.path.join(self.home, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
        os.chmod(path, mode)

    def shut(self) -> None:
        """What was started in a login ends with it: the sessions by their processes, the rest by its mark."""
        server, self.server = self.server, None
        if server is None:
            return
        for pid in [*list_beneath(server.pid, list_processes()), server.pid]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        server.wait()
        forget_process(server)
        self.child.sweep(SSH)


def user_name() -> str:
    """Raises ``LookupError``."""
    return pwd.getpwuid(os.geteuid()).pw_name


def find_server(env: Mapping[str, str]) -> str:
    """Raises ``LookupError``."""
    program = shutil.which("sshd", path=f"{env.get('PATH', os.defpath)}:{PLACES}")
    if program is None or shutil.which("ssh-keygen") is None:
        raise LookupError("the image has no sshd (openssh-server)")
    return os.path.realpath(program)


def is_variable(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
