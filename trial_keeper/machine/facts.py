"""Describes this machine for users who check it before they run trials here."""

from __future__ import annotations

import os
import pwd
import sys
import time
from typing import Any

from trial_keeper.machine import gpus

GPU_LIMIT_S = 10.0  # limit in seconds for an answer of nvidia-smi
NEEDED = 4096  # bytes to write as a test, because an empty file can be created even on a full disk


def facts(top: str) -> dict[str, Any]:
    """Return facts about this machine, such as its Python version, CPUs, disk space and GPUs. Raises OSError.

    ``top``: the folder of all experiments, "~/nni-experiments". ``free_bytes`` and ``free_files`` belong to
    the file system of this folder. ``trouble`` states why nothing can be written into it; None if writing
    works. ``gpus`` has the form of the field ``gpu`` of ``trial_keeper.wire``.
    """
    there = top
    while not os.path.isdir(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    disk = os.statvfs(there)
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "home": os.path.expanduser("~"),
        "top": top,
        "user": _user(),
        "host": os.uname().nodename,
        "cpus": len(os.sched_getaffinity(0)),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "free_files": disk.f_favail,
        "trouble": _trouble(top),
        "gpus": gpus.read(gpus.Tool(GPU_LIMIT_S), gpus.owner_of("NNIMGR_JOB_ID")).reading,
        "time": time.time(),
    }


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may have no names for its users
        return str(os.getuid())


def _trouble(top: str) -> str | None:
    """Create and remove a file, and the folders above it if necessary.

    Return the error as a sentence, or None.
    """
    path = os.path.join(top, f".nnimgr-{os.getpid()}")
    try:
        os.makedirs(top, exist_ok=True)
        try:
            with open(path, "wb") as file:
                file.write(bytes(NEEDED))
        finally:
            if os.path.exists(path):
                os.unlink(path)
    except OSError as error:
        return error.strerror or str(error)
    return None
