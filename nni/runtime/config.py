"""Directory of NNI's configuration: where registered algorithms are listed."""

from __future__ import annotations

from pathlib import Path

from nnimgr.dispatcher.registered import registry_file

__all__ = ["get_config_directory", "get_config_file"]


def get_config_directory() -> Path:
    """Return the directory. Create it if necessary."""
    directory = registry_file().parent
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def get_config_file(name: str) -> Path:
    """Return the path of a file in the directory. The file may not exist."""
    return get_config_directory() / name
