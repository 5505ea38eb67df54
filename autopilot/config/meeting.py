"""Where rented machines and the daemon can meet: services of buckets, addresses, the least rights of a key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    title: str
    url: str
    endpoint: str = ""
    region: str = ""
    asks: tuple[str, ...] = ("bucket",)
    """What has to be known for the three, in their braces."""
    rights: str = ""
    """How to get a key that may do what is needed here and no more."""


AWS_POLICY = """\
{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::{bucket}"},
  {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
   "Resource": "arn:aws:s3:::{bucket}/autopilot/*"}]}"""

SERVICES = (
    Service(
        "r2",
        "Cloudflare R2",
        "s3://{bucket}/autopilot",
        "https://{account id}.r2.cloudflarestorage.com",
        "auto",
        ("bucket", "account id"),
        "in R2, Manage API tokens: a token with Object Read & Write for the bucket {bucket} alone",
    ),
    Service(
        "b2",
        "Backblaze B2",
        "s3://{bucket}/autopilot",
        "https://s3.{region}.backblazeb2.com",
        "{region}",
        ("bucket", "region"),
        "in Application Keys: a key for the bucket {bucket} alone, Read and Write; the region is in the bucket's"
        " endpoint, like us-west-004",
    ),
    Service(
        "s3",
        "Amazon S3",
        "s3://{bucket}/autopilot",
        region="{region}",
        asks=("bucket", "region"),
        rights="a user of its own with an access key and this policy:\n" + AWS_POLICY,
    ),
    Service(
        "hf",
        "Hugging Face",
        "s3://{bucket}/autopilot",
        "https://s3.hf.co/{namespace}",
        asks=("bucket", "namespace"),
        rights="in the account's settings, an access key pair for its storage; the namespace is your user name, or that"
        " of an organization. Whether its presigned addresses work, which machines need, autopilot doctor tries out",
    ),
    Service(
        "gs",
        "Google Cloud Storage",
        "gs://{bucket}/autopilot",
        rights="a service account with the role Storage Object User on the bucket {bucket} alone, and its JSON key",
    ),
)


def fill(text: str, known: dict[str, str]) -> str:
    """``text`` with what is known in place of its braces; other braces stay."""
    for name, value in known.items():
        text = text.replace("{" + name + "}", value)
    return text
