"""NNI's interface of advisors: algorithms that are tuner and assessor in one.

``nni.runtime.msg_dispatcher_base`` and the modules beside it export these names too. An advisor gets commands
through its ``handle_`` methods. It answers with ``send``, at once or during a later command. All methods are
called one after the other, in one thread. Unlike in NNI, there is no command channel to connect, and ``run``
is not needed.

If the advisor's process has died, a new advisor gets the search space through ``handle_initialize``. Then it
gets the results of all finished trials through ``handle_import_data``.

This module uses the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from nnimgr.algorithm import Recoverable

__all__ = ["Advisor", "CommandType", "connect", "is_hosted", "send"]


class CommandType(Enum):
    """Commands that an advisor gets or sends, with NNI's codes."""

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
    """Pass every command that an advisor sends from now on to ``receiver``."""
    _receivers[:] = [receiver]


def is_hosted() -> bool:
    """Return whether this process hosts an advisor of an experiment, so that ``send`` works."""
    return bool(_receivers)


def send(command: CommandType, data: str) -> None:
    """Send a command of an advisor to the experiment. Raise RuntimeError if there is no experiment.

    ``data``: JSON text. For NewTrialJob: an object with ``parameter_id`` (any new JSON value) and
    ``parameters``. For KillTrialJob: the id of the trial. For Initialized and NoMoreTrialJobs: empty.
    """
    if not _receivers:
        raise RuntimeError(f"{command.name} was sent, but an advisor can send only inside an experiment")
    _receivers[0](command, data)


class Advisor(Recoverable):
    """Base class of advisors (``MsgDispatcherBase`` in NNI).

    ``command_channel_url`` is ignored. It is accepted because advisors written for NNI may pass it.
    """

    def __init__(self, command_channel_url: str | None = None) -> None:
        self.stopping = False
        self.worker_exceptions: list[Any] = []

    def send(self, command: CommandType, data: str) -> None:
        """Send a command to the experiment, like the function ``send`` of this module."""
        send(command, data)

    def handle_initialize(self, data: dict[str, Any]) -> None:
        """Receive the search space. This is the first call. Send the command Initialized when ready."""
        raise NotImplementedError("handle_initialize is missing")

    def handle_request_trial_jobs(self, data: int) -> None:
        """Receive a request for ``data`` more trials.

        Send NewTrialJob for each of them, now or later, or send NoMoreTrialJobs.
        """
        raise NotImplementedError("handle_request_trial_jobs is missing")

    def handle_update_search_space(self, data: dict[str, Any]) -> None:
        """Receive the new search space after a user has changed it."""
        raise NotImplementedError("handle_update_search_space is missing")

    def handle_import_data(self, data: list[dict[str, Any]]) -> None:
        """Receive results from outside this experiment, each as {"parameter": ..., "value": ...}."""
        raise NotImplementedError("handle_import_data is missing")

    def handle_add_customized_trial(self, data: Any) -> None:
        """Never called, because trials that a user submits do not reach an advisor. NNI has this method."""
        raise NotImplementedError("handle_add_customized_trial is missing")

    def handle_report_metric_data(self, data: dict[str, Any]) -> None:
        """Receive a result of a trial that this advisor has created.

        Keys of ``data``: ``parameter_id`` (as sent), ``trial_job_id``, ``type`` (PERIODICAL or FINAL),
        ``sequence`` (number of the intermediate result, 0 for a final one) and ``value`` (JSON text).
        """
        raise NotImplementedError("handle_report_metric_data is missing")

    def handle_trial_end(self, data: dict[str, Any]) -> None:
        """Receive the end of a trial that this advisor has created.

        Keys of ``data``: ``trial_job_id``, ``event`` (the trial's last status) and ``hyper_params`` (the text
        that was sent with NewTrialJob).
        """
        raise NotImplementedError("handle_trial_end is missing")
