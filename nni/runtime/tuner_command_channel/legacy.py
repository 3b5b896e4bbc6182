"""NNI 2's channel between manager and tuner: frames in two binary files.

A frame is the command's code, the length of the data in bytes as 14 digits, and the data as UTF-8 text.
"""

from __future__ import annotations

import os
from typing import IO, Any

from nnimgr import advisor
from nnimgr.advisor import CommandType

__all__ = [
    "CommandType",
    "LegacyCommandChannel",
    "_get_out_file",
    "_set_in_file",
    "_set_out_file",
    "receive",
    "send",
]

_HEADER = 16  # bytes before the data
_INPUT, _OUTPUT = 3, 4  # NNI's manager opens these files for its tuners

_in_file: IO[bytes] | None = None
_out_file: IO[bytes] | None = None


def _set_in_file(in_file: Any) -> None:
    """Make ``receive`` read this file."""
    global _in_file
    _in_file = in_file


def _set_out_file(out_file: Any) -> None:
    """Make ``send`` write to this file."""
    global _out_file
    _out_file = out_file


def _get_out_file() -> Any:
    """Return the file that ``send`` writes to. Raise RuntimeError if there is none."""
    global _out_file
    if _out_file is None:
        _out_file = _inherited(_OUTPUT, "wb")
    return _out_file


def _get_in_file() -> Any:
    global _in_file
    if _in_file is None:
        _in_file = _inherited(_INPUT, "rb")
    return _in_file


def _inherited(descriptor: int, mode: str) -> Any:
    """Open a file of NNI's manager. Raise RuntimeError if another program has started this process."""
    if os.environ.get("SDK_PROCESS") == "dispatcher":
        try:
            return open(descriptor, mode)
        except OSError:
            pass
    raise RuntimeError(
        "There is no channel to a manager. A tuner gets its commands from nnimgr by calls of its methods. A "
        "test can set the files: _set_in_file(file), _set_out_file(file)."
    )


def send(command: CommandType, data: str) -> None:
    """Send a command: to the experiment if this process belongs to one, else to the output file.

    Raise RuntimeError if there is neither.
    """
    if _out_file is None and advisor.is_hosted():
        advisor.send(command, data)
        return
    payload = data.encode()
    file = _get_out_file()
    file.write(b"%b%014d%b" % (command.value.encode(), len(payload), payload))
    file.flush()


def receive() -> tuple[CommandType | None, str | None]:
    """Wait for the next command. Return it with its data, or (None, None) at the end of the input file."""
    file = _get_in_file()
    header = file.read(_HEADER) or b""
    if len(header) < _HEADER:
        return None, None
    data = file.read(int(header[2:]))
    return CommandType(header[:2].decode()), data.decode()


class LegacyCommandChannel:
    """The two files, with the methods of ``TunerCommandChannel`` that a dispatcher uses."""

    def connect(self) -> None:
        """Do nothing: the files are open."""

    def disconnect(self) -> None:
        """Do nothing: the files stay open."""

    def _send(self, command: CommandType, data: str) -> None:
        send(command, data)

    def _receive(self) -> tuple[CommandType | None, str | None]:
        return receive()
