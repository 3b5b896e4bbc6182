"""Names of keepers, and functions that read a machine's host from the name of its keeper."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import re

__all__ = [
    "ASK",
    "IMPORTED",
    "LOCAL",
    "NNI",
    "NO_COMMAND",
    "experiment_folder",
    "host_of",
    "keeper_name",
    "why_no_files",
]

LOCAL = "local"  # the keeper on the server's own machine
# Not keepers, but what has run trials in place of a keeper. nnimgr has no files of these trials.
ASK = "ask"  # programs of the user that run trials themselves
NO_COMMAND = "(none: programs ask for the trials)"  # trialCommand where ASK runs the trials
IMPORTED = "import"  # another program, whose trials were imported
NNI = "nni"  # NNI, on a machine other than the server's own
_WITHOUT_FILES = {
    ASK: "ran in a program of your own",
    IMPORTED: "was imported, and did not run here",
    NNI: "ran on a machine of NNI",
}
_PLAIN_USER = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+")
_DIGEST = re.compile(r"[0-9a-f]{8}")
_ODD = re.compile(r"[^A-Za-z0-9._-]")


def keeper_name(user: str | None, host: str, port: int) -> str:
    """Return the name of a machine's keeper. It never changes, and has only letters, digits, ``.``, ``_`` and
    ``-``.

    A host contains no ``_``, so the text between the last two ``_`` of the name is the host.
    """
    name = "_".join(filter(None, (user, host, str(port))))
    if _PLAIN_HOST.fullmatch(host) and (user is None or _PLAIN_USER.fullmatch(user)):
        return name
    digest = hashlib.sha256(f"{user}@{host}:{port}".encode()).hexdigest()[:8]
    return f"{_ODD.sub('-', name)}_{digest}"


def host_of(keeper_id: str) -> str | None:
    """Return the host from the name of a machine's keeper; None if the name does not belong to a machine.

    An IPv6 address is restored. In other hosts, characters that names cannot contain stay replaced by ``-``.
    """
    names = keeper_id.split("_")
    digested = len(names) > 2 and bool(_DIGEST.fullmatch(names[-1]))
    if digested:
        names.pop()
    if len(names) < 2 or not names[-1].isdecimal():
        return None
    host = names[-2]
    if digested:
        with contextlib.suppress(ValueError):
            return f"[{ipaddress.IPv6Address(host.replace('-', ':'))}]"
        return "_".join(names[:-1])
    return host


def why_no_files(keeper_id: str | None) -> str | None:
    """Return why nnimgr has no output and no files of an attempt, as the end of a sentence about its trial.

    Return None if a keeper has run the attempt, or it has no place yet.
    """
    return _WITHOUT_FILES.get(keeper_id or "")


def experiment_folder(experiment_id: str, keeper_id: str) -> str:
    """Return the folder of an experiment's files on the keeper's machine, relative to the home directory."""
    return f"nni-experiments/{experiment_id}/environments/{keeper_id}"
