"""Program of the analysis process, ``python -m nnimgr.analysis.worker``. The module ``process`` starts it.

The process answers the questions on its standard input one after the other. It exits when it has been idle
for a while, or when the server has ended. All other output goes to standard error, which the server reads.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
import traceback
from typing import Any

from nnimgr.analysis.questions import Answers
from nnimgr.analysis.wire import LENGTH, failure, frame
from nnimgr.child import die_with_parent

__all__ = ["main"]

# Size of the pipe for answers. If it is large, the server reads an answer of megabytes in fewer steps.
_PIPE_BYTES = 1 << 20


def main(idle_s: float) -> int:
    """Answer questions from standard input until it ends, or until no question has come for ``idle_s``
    seconds.

    Return 0, the exit status.
    """
    die_with_parent()
    _be_the_first_to_go()
    read_fd, write_fd = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # a print to standard output must not break the frames
    try:
        fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # the kernel limits the memory that a user's pipes may take
    answers = Answers()
    while select.select([read_fd], [], [], idle_s)[0]:
        question = _read(read_fd)
        if question is None:
            break
        _write(write_fd, _answer(answers, question))
    return 0


def _be_the_first_to_go() -> None:
    """If memory runs out, make the kernel kill this process before the server and the trials."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass  # the system does not offer this setting


def _answer(answers: Answers, question: dict[str, Any]) -> bytes:
    try:
        body = answers.answer(**question)
    except Exception as error:
        head = failure(error)
        if head["failed"] == "fault":
            traceback.print_exc()
        return frame(head)
    return frame({"length": len(body)}, body)


def _read(fd: int) -> dict[str, Any] | None:
    """Read the next question from the file descriptor. Return None at the end of the input."""
    size = _exactly(fd, LENGTH.size)
    text = None if size is None else _exactly(fd, LENGTH.unpack(size)[0])
    return None if text is None else json.loads(text)


def _exactly(fd: int, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _write(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


if __name__ == "__main__":
    from trial_keeper.machine.encoding import use_utf8

    use_utf8()
    sys.exit(main(float(sys.argv[1])))
