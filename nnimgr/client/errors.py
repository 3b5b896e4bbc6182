"""Errors of the client: sentences for the user, and the command that corrects the error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ClientError"]


class ClientError(RuntimeError):
    """Error: a request to the server, or a command, has failed. Each of ``lines`` is a sentence of the
    message.

    ``mend`` is the last line: the command that corrects the error. "{prog}" in it is replaced by the current
    command, such as "nnictl trial ls". None: the command's help is the last line. "": there is no last line.
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
