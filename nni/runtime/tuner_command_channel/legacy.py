"""NNI 2's channel between manager and tuner: two binary files, one for each direction.

Each message consists of the command's code, the length of the data in bytes as 14 digits, and the data as
UTF-8 text.
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
    """Set the file from which ``receive`` reads."""
    global _in_file
    _in_file = in_file


def _set_out_file(out_file: Any) -> None:
    """Set the file to which ``send`` writes."""
    global _out_file
    _out_file = out_file


def _get_out_file() -> Any:
    """Return the file to which ``send`` writes. Raise RuntimeError if there is no such file."""
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
    """Open a file descriptor that NNI's manager has passed to this process.

    Raise RuntimeError if NNI's manager has not started this process.
    """
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
    """Send a command to the experiment if this process belongs to one, else write it to the output file.

    Raise RuntimeError if there is no experiment and no output file.
    """
    if _out_file is None and advisor.is_hosted():
        advisor.send(command, data)
        return
    payload = data.encode()
    file = _get_out_file()
    file.write(b"%b%014d%b" % (command.value.encode(), len(payload), payload))
    file.flush()


def receive() -> tuple[CommandType | None, str | None]:
    """Wait for the next command in the input file.

    Return the command and its data, or (None, None) at the end of the file.
    """
    file = _get_in_file()
    header = file.read(_HEADER) or b""
    if len(header) < _HEADER:
        return None, None
    data = file.read(int(header[2:]))
    return CommandType(header[:2].decode()), data.decode()


class LegacyCommandChannel:
    """Channel that uses the two files of this module.

    It has the methods of ``TunerCommandChannel`` that a dispatcher uses.
    """

    def connect(self) -> None:
        """Do nothing, because the files are already open."""

    def disconnect(self) -> None:
        """Do nothing, because the files stay open."""

    def _send(self, command: CommandType, data: str) -> None:
        send(command, data)

    def _receive(self) -> tuple[CommandType | None, str | None]:
        return receive()
