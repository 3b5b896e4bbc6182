"""Reads and changes the YAML files with a user's registrations, in NNI's configuration directory.

A file is replaced as a whole, under a lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from training_services.private import forbid_writing

__all__ = ["UserFileError", "changing", "config_directory", "read"]


class UserFileError(ValueError):
    """Error: the file with a user's registrations cannot be read or written."""


def config_directory(environ: Mapping[str, str] | None = None, *, python: str | None = None) -> Path:
    """Return the directory of a user's files for this environment and this Python interpreter.

    The defaults are those of this process. The directory is ``$NNI_CONFIG_DIR``, or the folder ``nni`` of the
    interpreter's virtual or conda environment, or ``~/.config/nni``.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("NNI_CONFIG_DIR")
    if named:
        return Path(named)
    prefix = Path(os.path.abspath(python or sys.executable)).parent.parent
    if (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir():
        return prefix / "nni"
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(home) / ".config" / "nni"


def read(file: Path, *, lists: Collection[str], what: str) -> dict[str, Any]:
    """Return the mapping in the YAML file; empty if there is no file. Raises UserFileError.

    ``lists``: keys whose values must be lists; ``what``: description of the expected content, for the error.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UserFileError(f"{file} cannot be read: {error}") from error
    import yaml

    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserFileError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    if raw is None:
        return {}
    if not isinstance(raw, dict) or not all(isinstance(raw.get(key) or [], list) for key in lists):
        raise UserFileError(f"{file} does not contain {what}")
    return raw


@contextlib.contextmanager
def changing(file: Path, *, lists: Collection[str], what: str) -> Iterator[dict[str, Any]]:
    """Yield the mapping in the YAML file, and write it back if the caller has changed it.

    Raises UserFileError.
    """
    import yaml

    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with open(file.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            forbid_writing(file.with_suffix(".lock"))
            raw = read(file, lists=lists, what=what)
            before = yaml.safe_dump(raw, sort_keys=False)
            yield raw
            if (after := yaml.safe_dump(raw, sort_keys=False)) != before:
                fresh = file.with_suffix(".new")
                fresh.write_text(after, encoding="utf-8")
                # Other users who share this virtual environment may read the file, but not change it.
                forbid_writing(fresh)
                fresh.replace(file)
    except OSError as error:
        raise UserFileError(f"{file} cannot be written: {error.strerror}") from error
