"""Output of commands, and the exception that ends a command.

Results and progress go to standard output, as in NNI; warnings and errors go to standard error. Colours are
used only on terminals. With ``--json``, standard output holds one JSON value and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

__all__ = ["CliError", "Terminal", "confirmed", "shown_time"]

_GREEN, _YELLOW, _RED, _RESET = "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"


class CliError(Exception):
    """A command has failed. Each line is shown as an error. ``code`` is the exit code."""

    def __init__(
        self, *lines: str, code: int = 1, problems: Sequence[dict[str, Any]] = (), plain: str = ""
    ) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code
        self.problems = list(problems)
        self.plain = plain  # text shown unchanged after the lines, such as the end of a log


class Terminal:
    """Standard output and error of one command."""

    def __init__(self, *, as_json: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.as_json = as_json
        self.out = sys.stdout if out is None else out
        self.err = sys.stderr if err is None else err

    @property
    def live(self) -> bool:
        """Whether standard output is a terminal for the user."""
        return not self.as_json and self.out.isatty() and os.environ.get("TERM") != "dumb"

    def say(self, text: str) -> None:
        """Print a line of the result or of progress. With ``--json``, print nothing."""
        if not self.as_json:
            print(text, file=self.out, flush=True)

    def info(self, text: str) -> None:
        self.say(self._coloured(self.out, _GREEN, f"INFO: {text}"))

    def stamped(self, text: str) -> None:
        """Print a line with the time in front, in the form of ``nnictl create``."""
        self.say(self._coloured(self.out, _GREEN, f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {text}"))

    def warn(self, text: str) -> None:
        print(self._coloured(self.err, _YELLOW, f"WARNING: {text}"), file=self.err, flush=True)

    def fail(self, error: CliError) -> None:
        if self.as_json:
            body: dict[str, Any] = {"message": "\n".join(error.lines)}
            if error.problems:
                body["problems"] = error.problems
            self.json({"error": body})
        for line in error.lines:
            print(self._coloured(self.err, _RED, f"ERROR: {line}"), file=self.err)
        if error.plain:
            print(error.plain, file=self.err)
        self.err.flush()

    def json(self, value: Any) -> None:
        """Print a JSON value in our own form, for programs."""
        unicode = (self.out.encoding or "utf-8").lower().replace("_", "-") == "utf-8"
        print(json.dumps(value, ensure_ascii=not unicode), file=self.out, flush=True)

    def nni_json(self, value: Any) -> None:
        """Print a JSON value as NNI's ``nnictl`` formats it."""
        print(json.dumps(value, indent=4, sort_keys=True, separators=(",", ":")), file=self.out, flush=True)

    def _coloured(self, stream: TextIO, colour: str, text: str) -> str:
        if not stream.isatty() or os.environ.get("NO_COLOR"):
            return text
        return f"{colour}{text}{_RESET}"


def shown_time(at: datetime | str | None, *, missing: str = "N/A") -> str:
    """Return an instant in local time in NNI's form."""
    if at is None:
        return missing
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    return instant.astimezone().strftime("%Y/%m/%d %H:%M:%S")


def confirmed(question: str) -> bool:
    """Ask a question on standard error, because standard output is for results. No answer means no."""
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
