"""Checks of the URL of a storage."""

from __future__ import annotations

import importlib
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["LOCAL", "check_url", "driver_fault", "protocol_of"]

LOCAL = frozenset(("file", "local"))
_PATTERN_CHARACTERS = frozenset("*?[]")


def protocol_of(url: str) -> str:
    """Return the protocol of a URL, such as "s3"."""
    return url.partition("://")[0].lower()


def check_url(url: str) -> str:
    """Return the URL if its form is valid. Raises ValueError.

    The message does not repeat the URL, which may contain a secret.
    """
    if "::" in url:
        raise ValueError("must be one URL, not several that are joined by '::'")
    protocol, mark, rest = url.partition("://")
    if not mark or not protocol.replace("+", "").replace("-", "").isalnum():
        raise ValueError("must be a URL such as s3://bucket/folder, gs://bucket/folder or file:///mnt/folder")
    if ":" in rest.rpartition("@")[0]:  # a password may contain a slash
        raise ValueError(
            "must not contain a password: the storage's driver reads it from the server's environment, for "
            "example from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if _PATTERN_CHARACTERS.intersection(url) or "#" in url:
        raise ValueError("must not contain any of the characters * ? [ ] #")
    if protocol.lower() in LOCAL and not rest.startswith("/"):
        raise ValueError("must have an absolute path: file:///mnt/folder, with three slashes")
    if not rest.strip("/"):
        raise ValueError("must name a bucket or a folder behind '://'")
    return url


def driver_fault(url: str) -> str | None:
    """Return a sentence if this Python has no driver for the URL, or if its local folder is missing.

    The package fsspec must be installed.
    """
    protocol = protocol_of(url)
    registry = importlib.import_module("fsspec.registry")
    try:
        registry.get_filesystem_class(protocol)
    except ValueError:
        usual = ", ".join(f"{name}://" for name in ("s3", "gs", "abfs", "sftp", "file"))
        return f"there is no storage with the protocol {protocol}://; usual ones are {usual}"
    except ImportError as error:
        return f"the driver of {protocol}:// is not installed for the server's Python: {error}"
    if protocol in LOCAL and not Path(folder := urlsplit(url).path).is_dir():
        return f"the folder {folder} does not exist; create it, or mount its disk"
    return None
