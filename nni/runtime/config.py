"""Directory of NNI's configuration: where registered algorithms are listed."""

from __future__ import annotations

from pathlib import Path

from nnimgr.dispatcher.registered import registry_file

__all__ = ["get_builtin_config_file", "get_config_directory", "get_config_file"]


def get_config_directory() -> Path:
    """Return the directory. Create it if necessary."""
    directory = registry_file().parent
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def get_config_file(name: str) -> Path:
    """Return the path of a file in NNI's configuration directory. The file may not exist."""
    return get_config_directory() / name


def get_builtin_config_file(name: str) -> Path:
    """Return the path that NNI gives to a file of its package. The file does not exist here.

    ``nnictl algo list`` and ``nni.tools.package_utils`` list the built-in algorithms.
    """
    return Path(__file__).with_name("default_config") / name
