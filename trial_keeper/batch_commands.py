"""Runs the commands of a batch system on its login node, for the attendant."""

from __future__ import annotations

import subprocess
from typing import Any

KNOWN = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sinfo")


def run(words: list[str], text: str, seconds: float) -> dict[str, Any]:
    """Run a command with ``text`` as its input. Return its exit code, its output and its errors.

    Raises ValueError if the command is not one of a batch system, is missing here, or takes too long.
    """
    if words[0] not in KNOWN:
        raise ValueError(f"{words[0]!r} is not a command of a batch system")
    try:
        done = subprocess.run(
            words, input=text.encode(), capture_output=True, timeout=seconds,
            check=False, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise ValueError(f"there is no {words[0]} here") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"{words[0]} has not ended within {seconds:g} s") from None
    output, errors = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
    return {"code": done.returncode, "output": output, "errors": errors}
