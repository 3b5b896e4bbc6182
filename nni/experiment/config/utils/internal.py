"""Helper functions that only NNI's own configuration classes use, named as in NNI."""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = [
    "camel_case",
    "case_insensitive",
    "get_base_path",
    "get_ipv4_address",
    "resolve_path",
    "set_base_path",
    "unset_base_path",
]

_base_path: Path | None = None


def get_base_path() -> Path:
    """Return the directory from which relative paths in configurations start. Default: the current
    directory.
    """
    return Path() if _base_path is None else _base_path


def set_base_path(path: Path) -> None:
    """Set the directory from which relative paths in configurations start.

    Raise AssertionError if a directory is set already.
    """
    global _base_path
    assert _base_path is None, f"the base path is {_base_path} already; call unset_base_path() first"
    _base_path = path


def unset_base_path() -> None:
    """Make relative paths in configurations start from the current directory again."""
    global _base_path
    _base_path = None


def resolve_path(path: Path | str, base_path: Path) -> str:
    """Return a path as an absolute path without links.

    ``~`` is replaced by the home directory. A relative path starts from ``base_path``.
    """
    return os.path.realpath(base_path / os.path.expanduser(path))


def case_insensitive(key: str) -> str:
    """Return a field's name in lower case without underscores, for comparison with other names."""
    return key.lower().replace("_", "")


def camel_case(key: str) -> str:
    """Return a snake_case field name in camelCase, the form that configuration files use."""
    first, *others = key.strip("_").split("_")
    return first + "".join(map(str.title, others))


def get_ipv4_address() -> str:
    """Return the IPv4 address of this machine in the network of its default route.

    Raise OSError if there is no such route.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.0", 80))  # an address reserved for documentation; UDP's connect sends nothing
        return str(probe.getsockname()[0])
