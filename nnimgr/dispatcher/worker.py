"""Main program of a dispatcher child: ``python -m nnimgr.dispatcher.worker``, or a fork of the zygote.

``nnimgr.dispatcher.process`` starts it. User code owns file descriptors 0 to 2: its input is empty, and both
outputs go to the log that the server has opened as stderr. So nothing that user code prints can break the
protocol. Messages from the server may contain secrets. They arrive on stdin, and are neither logged nor put
into the environment.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from nnimgr.child import die_with_parent, name_process
from nnimgr.dispatcher.assessor import AssessorHost
from nnimgr.dispatcher.calls import Doomed
from nnimgr.dispatcher.channel import Channel
from nnimgr.dispatcher.messages import Environment, Failed, Leave, Start
from nnimgr.dispatcher.registry import is_builtin
from nnimgr.dispatcher.tuner import TunerHost
from nnimgr.spelling import error_text

if TYPE_CHECKING:
    from nnimgr.dispatcher.scheduler import SchedulerHost

# NNI's names of log levels with the numbers of ``logging``. "trace" is below all other levels.
_LEVELS = {"fatal": 50, "error": 40, "warning": 30, "info": 20, "debug": 10, "trace": 1}


def main() -> int:
    """Host one algorithm until the message Leave, and return 0. Return 1 after a fatal error."""
    die_with_parent()  # the channel also ends this process when the server closes its pipe
    channel = _open_channel()
    start = channel.take()
    if isinstance(start, Environment):
        os.environ.clear()
        os.environ.update(start.environ)
        os.chdir(start.cwd)
        start = channel.take()
    if not isinstance(start, Start):
        raise SystemExit(f"expected Start, not {type(start).__name__}")
    name_process(f"nnimgr-{start.role}")
    _prepare(start)
    host = _host(channel, start)
    try:
        if start.name is not None and is_builtin(start.role, start.name):
            # The restoration of the state creates very many lasting objects. For user code, the garbage
            # collector stays on, because user code may create cycles.
            gc.disable()
        host.build()
        gc.enable()
        while True:
            message = channel.take()
            if isinstance(message, Leave):
                host.leave()
                return 0
            host.handle(message)
    except Doomed:
        host.fail()
        return 1
    except Exception as error:
        import traceback

        sentence = f"the {start.role}'s process failed outside of the {start.role}: {error_text(error)}"
        channel.send(Failed(call="process", sentence=sentence, traceback=traceback.format_exc(), fatal=True))
        return 1


def _host(channel: Channel, start: Start) -> TunerHost | AssessorHost | SchedulerHost:
    """Return the host of an algorithm with the role that the server has named."""
    if start.role == "tuner":
        return TunerHost(channel, start)
    if start.role == "assessor":
        return AssessorHost(channel, start)
    from nnimgr.dispatcher.scheduler import SchedulerHost  # costs time at the start of every child

    return SchedulerHost(channel, start)


def _open_channel() -> Channel:
    """Move the server's pipes away from file descriptors 0 and 1, which user code uses."""
    read_fd, write_fd = os.dup(0), os.dup(1)  # not inherited by programs that user code starts
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return Channel(read_fd, write_fd)


def _prepare(start: Start) -> None:
    """Set the environment variables and folders that NNI's algorithms may expect in their process."""
    if start.checkpoint_directory:
        os.makedirs(start.checkpoint_directory, exist_ok=True)
        os.environ["NNI_CHECKPOINT_DIRECTORY"] = start.checkpoint_directory
    os.environ["NNI_LOG_DIRECTORY"] = os.getcwd()
    os.environ["SDK_PROCESS"] = "dispatcher"
    os.environ["NNI_MODE"] = "resume" if start.rebuild_to else "start"
    os.environ["NNI_EXP_ID"] = start.experiment_id
    if start.name is None:  # only for user code, because importing logging would slow the built-in algorithms
        import logging

        logging.basicConfig(
            stream=sys.stderr,
            level=_LEVELS.get(os.environ.get("NNI_LOG_LEVEL", ""), logging.INFO),
            format="[%(asctime)s] %(levelname)s (%(name)s/%(threadName)s) %(message)s",
        )


if __name__ == "__main__":
    from trial_keeper.machine.encoding import use_utf8

    use_utf8()
    sys.exit(main())
