"""Errors of the client: sentences for the user, and a command that helps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ClientError"]


class ClientError(RuntimeError):
    """Error: a command, or a request to the server, has failed. ``lines``: sentences of the message.

    ``mend`` is the last line: a command that corrects the error. In it, "{prog}" is replaced by the current
    command without its arguments, such as "nnictl trial ls", "{command}" by this command with its arguments,
    and "{command ID}" by the same about the experiment ID. "{command ID without --port}" leaves an option
    out. None: the last line is the command's help. "": there is no last line.
    """

    def __init__(
        self,
        *lines: str,
        code: int = 1,
        problems: Sequence[dict[str, Any]] = (),
        plain: str = "",
        mend: str | None = None,
    ) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code
        self.problems = list(problems)
        self.plain = plain  # text shown unchanged after the lines, such as the end of a log
        self.mend = mend
