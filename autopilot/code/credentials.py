"""Files that look like credentials: known by their names alone."""

from __future__ import annotations

from pathspec import GitIgnoreSpec

PATTERNS = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template"),
    *("id_*", "!id_*.pub", "!id_*.py", ".ssh/", ".gnupg/", "*.pem", "*.p12", "*.pfx", "*.ppk", "*.kdbx"),
    *(".netrc", "_netrc", ".git-credentials", ".pgpass", ".pypirc", ".npmrc", ".vault-token"),
    *("**/.aws/credentials", ".azure/", "**/.config/gcloud/", "application_default_credentials.json"),
    *("service-account*.json", "service_account*.json", "credentials.json", ".s3cfg", "rclone.conf"),
    *("**/.docker/config.json", ".dockercfg", ".dockerconfigjson", "**/.kube/config", "kubeconfig"),
    *("kaggle.json", "**/.huggingface/token", "**/.cache/huggingface/token"),
)
"""In Git's syntax, for names in small letters."""

_SPEC = GitIgnoreSpec.from_lines(PATTERNS)


def looks_like_credentials(name: str) -> bool:
    return _SPEC.match_file(name.lower())
