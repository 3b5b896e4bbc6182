"""Runs the commands of a batch system: for the attendant on its login node, and for the server."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Sequence

KNOWN = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sinfo")


def complete(
    words: Sequence[str], text: str, seconds: float, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with ``text`` as its input. ``environ``: None for that of this process.

    After ``seconds``, kill it with all that it has started, and raise TimeoutExpired. Raise OSError if it
    cannot be started.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(text.encode(), timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # it may be a script that has started the real one
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def run(words: list[str], text: str, seconds: float) -> dict[str, Any]:
    """Run a command with ``text`` as its input. Return its exit code, its output and its errors.

    Raises ValueError if the command is not one of a batch system, is missing here, or takes too long.
    """
    if words[0] not in KNOWN:
        raise ValueError(f"{words[0]!r} is not a command of a batch system")
    try:
        done = complete(words, text, seconds)
    except FileNotFoundError:
        raise ValueError(f"there is no {words[0]} here") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"{words[0]} has not ended within {seconds:g} s") from None
    output, errors = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
    return {"code": done.returncode, "output": output, "errors": errors}
