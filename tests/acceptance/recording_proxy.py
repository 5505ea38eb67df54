"""A TCP relay that keeps every byte of both directions."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.patience import PATIENCE_S


@dataclass
class RecordingProxy:
    """``sent`` and ``answered``: one entry per connection. The target is asked for at each new one."""

    target: Callable[[], tuple[str, int]]
    sent: list[bytearray] = field(default_factory=list)
    answered: list[bytearray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target(), timeout=PATIENCE_S)
            except OSError:
                client.close()
                continue
            self.sent.append(bytearray())
            self.answered.append(bytearray())
            for source, sink, kept in ((client, server, self.sent[-1]), (server, client, self.answered[-1])):
                threading.Thread(target=_relay, args=(source, sink, kept), daemon=True).start()

    def close(self) -> None:
        self._listener.close()


def _relay(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
