"""Lines for people, broken to the width of a terminal."""

from __future__ import annotations

import shutil
from typing import Any, TextIO

__all__ = ["fitted", "names_command", "terminal_width", "wrapped"]

_NARROWEST = 20
# Commands inside sentences, and commands as whole lines, which are not broken at line ends. Inside a
# sentence, a command ends before a semicolon, or with the sentence. A line that begins with a command and
# "error:" is a message of this command.
_COMMAND = (
    r'"(?:nnictl|ssh-keyscan|ssh-keygen) [^"]*"'
    r"|(?<=: )(?:nnictl|pip install|\S+ -m pip install) [^;]*?(?=;|\. |$)"
    r"|^ *nnictl (?!.*: error: ).*$"
)
_NO_BREAK = "\x00"


def names_command(sentence: str) -> bool:
    """Return whether a sentence already has the command that helps."""
    return '"nnictl ' in sentence


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def fitted(stream: TextIO, text: str, *, indent: str = "  ") -> str:
    """Break long lines between words if the stream is a terminal. Commands are not broken.

    Unprintable characters other than line ends and tabs become "?": what a trial prints must not control the
    terminal.
    """
    if not text.replace("\n", "").replace("\t", "").isprintable():
        text = "".join(each if each.isprintable() or each in "\n\t" else "?" for each in text)
    return wrapped(text, terminal_width(), indent=indent) if stream.isatty() else text


def wrapped(text: str, width: int, *, indent: str = "  ") -> str:
    """Break lines that are longer than ``width`` between words. Commands are not broken.

    ``indent``: text before the second and later lines.
    """
    if all(len(line) <= width for line in text.splitlines()):
        return text
    import re
    import textwrap

    def whole(command: re.Match[str]) -> str:
        return command[0].replace(" ", _NO_BREAK)

    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    lines = []
    for line in text.splitlines():
        if len(line) > width:
            kept = re.sub(_COMMAND, whole, line)
            line = textwrap.fill(kept, width, subsequent_indent=indent, **options)
        lines.append(line.replace(_NO_BREAK, " "))
    return "\n".join(lines)
