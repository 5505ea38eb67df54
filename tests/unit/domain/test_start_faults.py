"""What markets and hosts say of an image that does not start, and whom each of it calls upon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.start_faults import (
    FAULTS,
    LONGEST_WORDS,
    StartCause,
    fault_of,
    find_fault,
    find_telling_line,
    trim_words,
)
from autopilot.mailbox.report_shapes import HOST_FAULTS
from autopilot.words.starts import tell_fault

WORDS = {
    "registry_denied": [
        'Error response from daemon: Head "https://ghcr.io/v2/me/train/manifests/1": unauthorized',
        'Error response from daemon: Get "https://ghcr.io/v2/": denied: denied',
        "pull access denied for me/train, repository does not exist or may require 'docker login'",
        "unauthorized: authentication required",
        "no basic auth credentials",
        "unauthorized: incorrect username or password",
        "failed to authorize: failed to fetch anonymous token: 401 Unauthorized",
    ],
    "image_missing": [
        "manifest unknown",
        "Error response from daemon: manifest for x/y:z not found: manifest unknown: manifest unknown",
    ],
    "image_arch": [
        "no matching manifest for linux/amd64 in the manifest list entries",
        "exec /bin/sh: exec format error",
    ],
    "host_arch": ["Error response from daemon: no matching manifest for linux/arm64/v8 in the manifest list entries"],
    "pull_limit": [
        "toomanyrequests: You have reached your unauthenticated pull rate limit. "
        "https://www.docker.com/increase-rate-limit",
        "toomanyrequests: You have reached your pull rate limit",
    ],
    "disk_full": ["write /var/lib/docker/tmp/GetImageBlob1: no space left on device"],
    "driver_too_old": [
        "OCI runtime create failed: runc create failed: nvidia-container-cli: requirement error: "
        "unsatisfied condition: cuda>=12.8, please update your driver"
    ],
    "container_refused": [
        "Error response from daemon: failed to create task for container: failed to create shim task: "
        "OCI runtime create failed: runc create failed",
        "OCI runtime create failed: runc create failed: permission denied",
    ],
    "no_shell": ['OCI runtime create failed: exec: "sh": executable file not found in $PATH: unknown'],
    "no_python": ["autopilot: no Python 3.8 or newer in this image", "code 1: autopilot: no Python 3.8 or newer"],
    "pull_failed": [
        "autopilot: <urlopen error [Errno -3] Temporary failure in name resolution>",
        "failed to pull image: unexpected eof",
        "dial tcp: lookup ghcr.io: i/o timeout",
    ],
    "": ["", "4c7d45f7c63c: Download complete", "success, running ghcr.io/me/denied-or-not/ssh", "Rented by User: now"],
}
IMAGE = {"image_missing", "image_arch", "no_python", "no_shell"}
NEXT = {
    StartCause.IMAGE: "submit the job again",
    StartCause.LOGIN: "name a login in `[registry]`",
    StartCause.LIMIT: "the job waits and tries again",
    StartCause.HOST: "another host is tried",
    StartCause.UNKNOWN: "another host is tried",
}
"""Who acts: the job's owner for an image and a login, the daemon for all else."""


@pytest.mark.parametrize(("fault", "words"), [(fault, each) for fault, many in WORDS.items() for each in many])
def test_words_are_told_apart(fault: str, words: str) -> None:
    assert find_fault(words) == fault


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["[Errno -3] Temporary failure in name resolution"] * 6, "no_network"),
        (["[Errno 101] Network is unreachable"] * 3 + ["[Errno 113] No route to host"] * 4, "no_network"),
        (["[Errno -3] Temporary failure in name resolution"] * 5, "pull_failed"),
        (
            ["[Errno -3] Temporary failure in name resolution"] * 9 + ["HTTP Error 503: Service Unavailable"],
            "pull_failed",
        ),
        (["[Errno 111] Connection refused"] * 9, ""),
        (["[Errno -2] Name or service not known"] * 9, ""),
    ],
    ids=("no names", "no route", "not yet", "no longer", "a store that is down", "a store that is none"),
)
def test_a_minute_without_names_or_a_route_is_no_network(lines: list[str], fault: str) -> None:
    """The store's own faults look different: they would be the same on any host."""
    log = [f"autopilot: <urlopen error {line}>" for line in lines]
    assert find_telling_line("\n".join(["start container", *log]))[0] == fault


def test_the_image_s_owner_is_called_upon_for_the_image_alone() -> None:
    assert {name for name, fault in FAULTS.items() if fault.cause is StartCause.IMAGE} == IMAGE
    assert {name for name, fault in FAULTS.items() if fault.cause is StartCause.LIMIT} == {"pull_limit"}
    assert fault_of("").cause is fault_of("of a later version").cause is StartCause.UNKNOWN


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_told_in_one_line_that_says_what_comes_next(fault: str) -> None:
    told = tell_fault(FAULTS[fault].remedy, trim_words("what the host said\nin two lines"))
    assert NEXT[FAULTS[fault].cause] in told
    assert told.endswith(" (it said: what the host said in two lines)")
    assert "\n" not in told


def test_what_a_virtual_machine_reports_is_in_the_same_table() -> None:
    assert set(HOST_FAULTS) <= set(FAULTS)


@given(st.text(), st.sampled_from([each for many in WORDS.values() for each in many if each]), st.text())
def test_words_around_a_known_fault_do_not_hide_it(before: str, words: str, after: str) -> None:
    """What comes with it may tell of a second one, of which the more exact one is taken."""
    alone = find_fault(words)
    assert not alone or find_fault(f"{before}\n{words}\n{after}")


@given(st.text(max_size=2000))
def test_what_is_kept_is_one_line_of_bounded_length(words: str) -> None:
    kept = trim_words(words)
    assert len(kept) <= LONGEST_WORDS
    assert "\n" not in kept
    assert find_fault(words) in FAULTS or find_fault(words) == ""
