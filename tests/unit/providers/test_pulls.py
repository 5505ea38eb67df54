"""What hosts say when a registry does not give out an image, told from what they say otherwise."""

from __future__ import annotations

import pytest

from autopilot.providers.pulls import says_pull_refused

REFUSED = [
    'Error response from daemon: Head "https://ghcr.io/v2/me/train/manifests/1": unauthorized',
    'Error response from daemon: Get "https://ghcr.io/v2/": denied: denied',
    "pull access denied for me/train, repository does not exist or may require 'docker login'",
    "unauthorized: authentication required",
    "no basic auth credentials",
    "unauthorized: incorrect username or password",
    "failed to authorize: failed to fetch anonymous token: 401 Unauthorized",
]
OTHERWISE = [
    "",
    "4c7d45f7c63c: Download complete",
    "success, running ghcr.io/me/denied-or-not/ssh",
    "OCI runtime create failed: runc create failed: permission denied",
    "manifest unknown",
    "no space left on device",
    "toomanyrequests: You have reached your pull rate limit",
    "failed to pull image: unexpected eof",
]


@pytest.mark.parametrize("words", REFUSED)
def test_a_registry_that_turns_a_pull_away_is_recognised(words: str) -> None:
    assert says_pull_refused(words)


@pytest.mark.parametrize("words", OTHERWISE)
def test_other_troubles_are_not_taken_for_it(words: str) -> None:
    assert not says_pull_refused(words)
