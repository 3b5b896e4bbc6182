"""Functions with which NNI's command line reads files, ends processes and runs pip."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nni.tools.nnictl.common_utils import print_error, print_warning

__all__ = [
    "call_pip_install",
    "call_pip_uninstall",
    "check_output_command",
    "install_package_command",
    "install_requirements_command",
    "kill_command",
]

_LOOK_S = 0.05  # seconds between two checks of a process


def check_output_command(file_path: str, head: int | None = None, tail: int | None = None) -> str:
    """Return the text of a file, or only its first ``head`` or last ``tail`` lines.

    Print an error and exit with code 1 if the file does not exist.
    """
    file = Path(file_path)
    if not file.exists():
        print_error(f"{file_path} does not exist!")
        sys.exit(1)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    if head:
        lines = lines[:head]
    elif tail:
        lines = lines[-tail:]
    return "".join(lines)


def kill_command(pid: int, timeout: float = 60) -> None:
    """Send SIGTERM to a process and wait up to ``timeout`` seconds for its end.

    Print a warning if it still runs. The first Ctrl-C only prints a warning. The second Ctrl-C ends the wait
    with KeyboardInterrupt.
    """
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        print_warning(f"There is no process {pid}.")
        return
    end, interrupted = time.monotonic() + timeout, False
    while _check_pid_running(pid):
        if time.monotonic() > end:
            print_warning(f"Process {pid} still runs {timeout} s after SIGTERM. To end it: kill -9 {pid}")
            return
        try:
            time.sleep(_LOOK_S)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            print_warning(f"Process {pid} is about to end. To stop waiting, press Ctrl-C again.")


def _check_pid_running(pid: int) -> bool:
    """Return whether the process with this id runs. Reap it if it is a child process that has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True


def call_pip_install(source: str) -> int:
    """Install a package with pip. Return pip's exit code."""
    return _pip("install", source)


def call_pip_uninstall(module_name: str) -> int:
    """Uninstall a package with pip. Return pip's exit code."""
    return _pip("uninstall", module_name)


def install_package_command(package_name: str) -> None:
    """Install a package with pip."""
    _pip("install", package_name)


def install_requirements_command(requirements_path: str) -> int:
    """Install the packages of a requirements file with pip. Return pip's exit code."""
    return _pip("install", "-r", requirements_path)


def _pip(*words: str) -> int:
    command: Sequence[str] = [sys.executable, "-m", "pip", *words]
    return subprocess.call(command)
