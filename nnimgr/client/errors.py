"""Errors of the client: sentences for the user, and a command that helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ApiError", "ClientError", "ServerGone", "other_version", "problem_line"]


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


class ApiError(ClientError):
    """Error: the server refuses a request. ``status``: HTTP status code of the answer."""

    def __init__(
        self, status: int, message: str, problems: list[dict[str, Any]], *, mend: str | None = None
    ) -> None:
        lines = [problem_line(problem) for problem in problems] or [message]
        super().__init__(*lines, problems=problems, mend=mend)
        self.status = status


class ServerGone(ClientError):
    """Error: the server cannot be reached, or is about to exit."""


def other_version(sentence: str, pids: Sequence[int]) -> ClientError:
    """Return the error of a command that does not go with the server, because of the server's version.

    ``sentence``: what shows this. ``pids``: processes of the servers that may be meant, if they are known.
    """
    which = "the server is" if len(pids) == 1 else "the server of this experiment is"
    return ClientError(
        f"{sentence}, so {which} of another version of nnimgr than this command. Trials continue without a "
        "server, and the next nnictl command opens their experiments again.",
        mend=f"Replace it: kill {' '.join(map(str, pids))} && {{command}}" if pids else None,
    )


def problem_line(problem: Mapping[str, Any]) -> str:
    """Return a configuration error that the server reports as text, with its place and the valid values."""
    # Import this module only here, because it also imports all modules that read configurations.
    from nnimgr.config.problems import Problem

    return str(Problem.of_plain(problem))
