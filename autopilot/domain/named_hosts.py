"""The hosts that a job's texts name: where it will fetch from. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from autopilot.domain.job import JobSpec

MOST = 8
_BY_WORD = (
    (re.compile(r"\b(?:pip3?|uv)\s+(?:pip\s+)?(?:install|sync|download)\b"), ("pypi.org", "files.pythonhosted.org")),
    (re.compile(r"\bhf\s+download\b|\bhuggingface-cli\b|\bsnapshot_download\b"), ("huggingface.co",)),
    (re.compile(r"\b(?:conda|mamba|micromamba)\s+(?:install|create|env)\b"), ("conda.anaconda.org",)),
    (re.compile(r"\bnpm\s+(?:install|ci)\b"), ("registry.npmjs.org",)),
)
_ADDRESS = re.compile(r"\b(?:https?|git|ssh)://(?:[^\s/@'\"]*@)?([a-z0-9][a-z0-9.-]*[a-z0-9])(?::(\d{1,5}))?", re.I)
_GIT = re.compile(r"\bgit@([a-z0-9][a-z0-9.-]*[a-z0-9]):", re.I)
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "pip_index_url", "hf_endpoint"})
"""A job with one of these variables does not go there straight."""


def find_hosts(spec: JobSpec) -> tuple[str, ...]:
    """``huggingface.co`` or ``example.com:8080``, in the order in which they are named; the first few."""
    names = {name.lower() for name, _ in (*spec.env, *spec.secrets)}
    if names & _PROXIES:
        return ()
    texts = (spec.setup, spec.run, *(url for _, url in spec.inputs))
    return tuple(dict.fromkeys(_of_texts(texts)))[:MOST]


def _of_texts(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for word, hosts in _BY_WORD:
            if word.search(text):
                yield from hosts
        for found in _ADDRESS.finditer(text):
            host = found[1].lower()
            if "." in host and not host.startswith("127."):
                default = {"http": "80", "ssh": "22", "git": "9418"}.get(found[0].partition(":")[0].lower(), "443")
                port = found[2] or default
                yield host if port == "443" else f"{host}:{port}"
        for found in _GIT.finditer(text):
            yield f"{found[1].lower()}:22"
