"""Functions that NNI's configuration classes use themselves, under NNI's names."""

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
    """Return the directory from which relative paths of configurations start. Default: the current one."""
    return Path() if _base_path is None else _base_path


def set_base_path(path: Path) -> None:
    """Set the directory from which relative paths start. Raise AssertionError if it is set already."""
    global _base_path
    assert _base_path is None, f"the base path is {_base_path} already; call unset_base_path() first"
    _base_path = path


def unset_base_path() -> None:
    """Make relative paths start from the current directory again."""
    global _base_path
    _base_path = None


def resolve_path(path: Path | str, base_path: Path) -> str:
    """Return an absolute path without links. ``~`` is expanded, a relative path starts from ``base_path``."""
    return os.path.realpath(base_path / os.path.expanduser(path))


def case_insensitive(key: str) -> str:
    """Return a field's name in the form in which names are compared."""
    return key.lower().replace("_", "")


def camel_case(key: str) -> str:
    """Return a field's name in the form in which files have it."""
    first, *others = key.strip("_").split("_")
    return first + "".join(map(str.title, others))


def get_ipv4_address() -> str:
    """Return the address of this machine in the network of its default route. Raise OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.0", 80))  # an address for documentation: nothing is sent
        return str(probe.getsockname()[0])
