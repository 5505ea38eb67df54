"""Files that look like credentials: known by their names alone."""

from __future__ import annotations

from pathspec import GitIgnoreSpec

FILES = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "id_*", "!id_*.pub", "!id_*.py"),
    *("*.pem", "*.p12", "*.pfx", "*.ppk", "*.kdbx", ".netrc", "_netrc", ".git-credentials", ".pgpass", ".pypirc"),
    *(".npmrc", ".vault-token", ".s3cfg", "rclone.conf", ".dockercfg", ".dockerconfigjson", "kubeconfig"),
    *("application_default_credentials.json", "credentials.json", "kaggle.json"),
    *("service-account*.json", "service_account*.json"),
)
"""By the last step of a path, in Git's syntax, for names in small letters."""
PLACES = (
    *(".ssh/", ".gnupg/", ".azure/", "**/.config/gcloud/", "**/.aws/credentials", "**/.docker/config.json"),
    *("**/.kube/config", "**/.huggingface/token", "**/.cache/huggingface/token"),
)
"""By the whole path."""

_FILES, _PLACES = GitIgnoreSpec.from_lines(FILES), GitIgnoreSpec.from_lines(PLACES)


def looks_like_credentials(name: str) -> bool:
    small = name.lower()
    return _FILES.match_file(small.rpartition("/")[2]) or ("/." in "/" + small and _PLACES.match_file(small))
