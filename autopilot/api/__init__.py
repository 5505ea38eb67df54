"""The control API: JSON over a unix socket, open by its file's permission; and over the listener's, by a token."""
