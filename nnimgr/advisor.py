"""NNI's interface of advisors: algorithms that are tuner and assessor in one.

``nni.runtime.msg_dispatcher_base`` and its neighbours re-export these names. An advisor gets commands through
its ``handle_`` methods, and answers with ``send``: now or during a later command. All methods are called one
at a time, in one thread. Unlike in NNI, no channel is connected, and ``run`` is not needed.

After the process has died, a new advisor gets the search space through ``handle_initialize``, and the results
of all finished trials through ``handle_import_data``.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from nnimgr.algorithm import Recoverable

__all__ = ["Advisor", "CommandType", "connect", "is_hosted", "send"]


class CommandType(Enum):
    """Commands to an advisor and from it, with NNI's codes."""

    Initialize = "IN"
    RequestTrialJobs = "GE"
    ReportMetricData = "ME"
    UpdateSearchSpace = "SS"
    ImportData = "FD"
    AddCustomizedTrialJob = "AD"
    TrialEnd = "EN"
    Terminate = "TE"
    Ping = "PI"

    Initialized = "ID"
    NewTrialJob = "TR"
    SendTrialJobParameter = "SP"
    NoMoreTrialJobs = "NO"
    KillTrialJob = "KI"
    Error = "ER"


Receiver = Callable[[CommandType, str], None]

_receivers: list[Receiver] = []  # at most one: a process hosts one advisor


def connect(receiver: Receiver) -> None:
    """Pass everything that is sent from now on to ``receiver``."""
    _receivers[:] = [receiver]


def is_hosted() -> bool:
    """Return whether this process hosts an advisor of an experiment, so that ``send`` works."""
    return bool(_receivers)


def send(command: CommandType, data: str) -> None:
    """Send a command. Raise RuntimeError outside of an experiment.

    ``data``: what the command is about, as JSON text. NewTrialJob needs an object with ``parameter_id`` (any
    JSON value that is new) and ``parameters``; KillTrialJob needs the id of the trial; Initialized and
    NoMoreTrialJobs need nothing.
    """
    if not _receivers:
        raise RuntimeError(f"{command.name} was sent, but an advisor can send only inside an experiment")
    _receivers[0](command, data)


class Advisor(Recoverable):
    """Base class of advisors (NNI: ``MsgDispatcherBase``).

    ``command_channel_url`` is ignored; it is taken because advisors of NNI may pass it on.
    """

    def __init__(self, command_channel_url: str | None = None) -> None:
        self.stopping = False
        self.worker_exceptions: list[Any] = []

    def send(self, command: CommandType, data: str) -> None:
        """Send a command. See the function ``send``."""
        send(command, data)

    def handle_initialize(self, data: dict[str, Any]) -> None:
        """Take the search space. The first call. Send Initialized when it is done."""
        raise NotImplementedError("handle_initialize is missing")

    def handle_request_trial_jobs(self, data: int) -> None:
        """Send NewTrialJob for ``data`` further trials, now or later, or NoMoreTrialJobs."""
        raise NotImplementedError("handle_request_trial_jobs is missing")

    def handle_update_search_space(self, data: dict[str, Any]) -> None:
        """Take the search space that a user has changed."""
        raise NotImplementedError("handle_update_search_space is missing")

    def handle_import_data(self, data: list[dict[str, Any]]) -> None:
        """Take results from elsewhere, each as {"parameter", "value"}."""
        raise NotImplementedError("handle_import_data is missing")

    def handle_add_customized_trial(self, data: Any) -> None:
        """Exists for NNI's sake. It is never called: a user's own trials do not reach an advisor."""
        raise NotImplementedError("handle_add_customized_trial is missing")

    def handle_report_metric_data(self, data: dict[str, Any]) -> None:
        """Take a result of a trial that this advisor has sent.

        Keys of ``data``: ``parameter_id`` (as sent), ``trial_job_id``, ``type`` (PERIODICAL or FINAL),
        ``sequence`` (number of the intermediate result, 0 for a final one) and ``value`` (JSON text).
        """
        raise NotImplementedError("handle_report_metric_data is missing")

    def handle_trial_end(self, data: dict[str, Any]) -> None:
        """Take the end of a trial that this advisor has sent.

        Keys of ``data``: ``trial_job_id``, ``event`` (the trial's last status) and ``hyper_params`` (the text
        that was sent with NewTrialJob).
        """
        raise NotImplementedError("handle_trial_end is missing")
