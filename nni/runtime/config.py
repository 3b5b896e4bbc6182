"""Paths of NNI's configuration directory, which contains the list of registered algorithms."""

from __future__ import annotations

from pathlib import Path

from nnimgr.dispatcher.registered import registry_file

__all__ = ["get_builtin_config_file", "get_config_directory", "get_config_file"]


def get_config_directory() -> Path:
    """Return the path of NNI's configuration directory. Create the directory if necessary."""
    directory = registry_file().parent
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def get_config_file(name: str) -> Path:
    """Return the path of a file in NNI's configuration directory. The file may not exist."""
    return get_config_directory() / name


def get_builtin_config_file(name: str) -> Path:
    """Return the path at which NNI's package has a file with default settings. nnimgr has no such file.

    To list the built-in algorithms, use ``nnictl algo list`` or ``nni.tools.package_utils`` instead.
    """
    return Path(__file__).with_name("default_config") / name
