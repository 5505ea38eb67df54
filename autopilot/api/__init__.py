"""The control API: JSON over a unix socket. Access is the socket's file permission; the peer's uid is logged."""
