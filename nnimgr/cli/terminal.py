"""Output of commands: results, warnings and errors.

Results and progress go to standard output, as in NNI; warnings and errors go to standard error, and so do
sentences about long waits (``nnimgr.client.waits``). Lines for people are wrapped to the terminal's width.
With ``--json``, standard output holds one JSON value and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from datetime import datetime
from typing import Any, TextIO

from nnimgr.cli.command import Command
from nnimgr.client.errors import ClientError
from nnimgr.client.lines import fitted, terminal_width

__all__ = ["Terminal", "confirmed", "drop_output", "printable", "shown_time"]

_GREEN, _YELLOW, _RED, _RESET = "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"
_UNNAMED = Command("nnictl")
_DISK_FULL = ("disk is full", os.strerror(errno.ENOSPC))  # parts of sentences of SQLite and of the kernel


class Terminal:
    """Standard output and standard error of a command."""

    def __init__(
        self,
        *,
        as_json: bool,
        command: Command = _UNNAMED,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.as_json = as_json
        self.command = command
        self.out = sys.stdout if out is None else out
        self.err = sys.stderr if err is None else err
        # Why output could not be written, if the command was continued nevertheless.
        self.lost: OSError | None = None
        self._acts = False

    @property
    def for_people(self) -> bool:
        """True if standard output is a terminal. Files and pipes get NNI's format or JSON instead."""
        return not self.as_json and self.out.isatty()

    @property
    def live(self) -> bool:
        """True if standard output is a terminal on which lines can be redrawn."""
        return self.for_people and not _is_dumb()

    @property
    def width(self) -> int:
        return terminal_width()

    def act_without_reader(self) -> None:
        """Let the command continue if its output cannot be written, because it changes something."""
        self._acts = True

    def say(self, text: str, *, indent: str = "  ") -> None:
        """Print a line of the result or of progress. With ``--json``, print nothing.

        ``indent``: text before the second and later lines, if the line is too long for the terminal.
        """
        if not self.as_json:
            self._print(fitted(self.out, text, indent=indent))

    def verbatim(self, text: str) -> None:
        """Print text that is meant to be copied: its lines are not broken."""
        if not self.as_json:
            self._print(text)

    def info(self, text: str) -> None:
        if not self.as_json:
            self._print(self._coloured(self.out, _GREEN, fitted(self.out, f"INFO: {text}")))

    def stamped(self, text: str) -> None:
        """Print a line that begins with date and time, as in NNI. A terminal gets only the time of day."""
        stamp = f"{datetime.now():%H:%M:%S} " if self.for_people else f"[{datetime.now():%Y-%m-%d %H:%M:%S}] "
        if not self.as_json:
            wrapped = fitted(self.out, f"{stamp}{text}", indent=" " * len(stamp))
            self._print(self._coloured(self.out, _GREEN, wrapped))

    def warn(self, text: str, *, plain: str = "") -> None:
        """Print a warning. ``plain``: text to print after the warning without line breaks or colours."""
        wrapped = fitted(self.err, f"WARNING: {text}")
        print(self._coloured(self.err, _YELLOW, wrapped), file=self.err)
        if plain:
            print(plain, file=self.err)
        self.err.flush()

    def fail(self, error: ClientError) -> None:
        mend = self.command.filled(_default_mend(error) if error.mend is None else error.mend)
        if self.as_json:
            body: dict[str, Any] = {"message": "\n".join(error.lines)}
            if error.problems:
                body["problems"] = error.problems
            if mend:
                body["mend"] = mend
            self.json({"error": body})
        for line in error.lines:
            wrapped = fitted(self.err, f"ERROR: {line}")
            print(self._coloured(self.err, _RED, wrapped), file=self.err)
        if error.plain:
            print(error.plain, file=self.err)
        if mend:
            print(fitted(self.err, f"  {mend}", indent="    "), file=self.err)
        self.err.flush()

    def json(self, value: Any) -> None:
        """Print a JSON value in nnimgr's own format, for programs."""
        unicode = (self.out.encoding or "utf-8").lower().replace("_", "-") == "utf-8"
        self._print(json.dumps(value, ensure_ascii=not unicode))

    def nni_json(self, value: Any) -> None:
        """Print a JSON value in the format of NNI's ``nnictl``."""
        self._print(json.dumps(value, indent=4, sort_keys=True, separators=(",", ":")))

    def _print(self, text: str) -> None:
        try:
            print(text, file=self.out, flush=True)
        except OSError as error:
            if not self._acts:
                raise
            if not isinstance(error, BrokenPipeError):
                self.lost = error
            drop_output(self.out)

    def _coloured(self, stream: TextIO, colour: str, text: str) -> str:
        if not stream.isatty() or os.environ.get("NO_COLOR") or _is_dumb():
            return text
        return f"{colour}{text}{_RESET}"


def _is_dumb() -> bool:
    """Return whether the terminal prints control sequences, such as colours, as text."""
    return os.environ.get("TERM") == "dumb"


def drop_output(out: TextIO) -> None:
    """Redirect an output stream to /dev/null, because what is left in its buffer cannot be written."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _default_mend(error: ClientError) -> str:
    """Return what to do about an error that does not say it."""
    if any(full in line for line in error.lines for full in _DISK_FULL):
        return "Free space on the disk, then repeat: {command}"
    return "See: {prog} --help"


def printable(text: str) -> str:
    """Replace unprintable characters by "?", such as line ends, colours and direction marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def shown_time(at: datetime | str | None, *, missing: str = "N/A") -> str:
    """Format a point in time as NNI does, in local time."""
    if at is None:
        return missing
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    return instant.astimezone().strftime("%Y/%m/%d %H:%M:%S")


def confirmed(question: str) -> bool:
    """Ask the user a yes-or-no question on standard error, because standard output is for results.

    Return whether the answer is yes. No answer means no.
    """
    print(fitted(sys.stderr, f"{question} [y/N]:"), end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
