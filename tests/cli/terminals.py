"""Runs ``nnictl`` as a person sees it, in a terminal, and as a program does, with a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Seen", "in_a_pipe", "in_a_terminal"]

PROGRAM = (sys.executable, "-m", "nnimgr.cli.main")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a command printed, to both streams, and its exit code."""

    text: str
    code: int

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def widest(self) -> int:
        return max(map(len, self.lines))


def in_a_terminal(*words: str, columns: int = 80, kind: str = "xterm", cwd: Path | None = None) -> Seen:
    """Run a command in a terminal of this width, without colours. A "dumb" one has no live views."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as reader:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        with subprocess.Popen(
            [*PROGRAM, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**environ, "NO_COLOR": "1", "TERM": kind},
        ) as process:
            os.close(theirs)
            chunks = []
            with contextlib.suppress(OSError):  # EIO: the command has closed the terminal
                while chunk := reader.read(1 << 16):
                    chunks.append(chunk)
    return Seen(b"".join(chunks).decode("utf-8").replace("\r\n", "\n"), process.returncode)


def in_a_pipe(*words: str, cwd: Path | None = None) -> Seen:
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, cwd=cwd, check=False)
    return Seen(done.stdout + done.stderr, done.returncode)
