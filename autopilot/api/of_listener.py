"""Headers by which the listener tells the daemon what it knows of a call. They count on the socket of the two alone."""

from __future__ import annotations

FILE, SIZE, SHA256 = "Autopilot-Upload", "Autopilot-Upload-Size", "Autopilot-Upload-Sha256"
"""Headers for a body that the listener has written to the disk."""
PEER = "Autopilot-Peer"
"""The address of its caller, for the log."""
PROXY_USER = "Autopilot-Proxy-User"
"""The user that a reverse proxy has signed in."""
PROXY_SECRET = "Autopilot-Proxy-Secret"  # noqa: S105 - a header's name
"""The secret that only that proxy knows. The proxy sends it under the same name."""
FROM_LISTENER = (FILE, SIZE, SHA256, PEER, PROXY_USER, PROXY_SECRET)
"""Headers that only the listener may send."""
