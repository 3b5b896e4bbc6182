"""NNI's base class of advisors, with the loop in which NNI's own dispatcher runs.

nnimgr calls an advisor's ``handle_`` methods and never needs the loop. ``run`` exists for tests of advisors
and tuners that send commands through a channel.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from nni._trace import load
from nni.runtime.env_vars import dispatcher_env_vars
from nni.runtime.tuner_command_channel import CommandType, TunerCommandChannel
from nnimgr import advisor
from nnimgr.advisor import Advisor

__all__ = ["MsgDispatcherBase"]

_logger = logging.getLogger(__name__)

QUEUE_LEN_WARNING_MARK = 20  # without an effect: commands are not queued
_worker_fast_exit_on_terminate = True  # without an effect: tests of NNI set it


class MsgDispatcherBase(Advisor):
    """Base class of advisors.

    ``command_channel_url`` is used only outside an experiment. Commands are handled in their order, one at a
    time, in the thread of ``run``.
    """

    def __init__(self, command_channel_url: str | None = None) -> None:
        super().__init__(command_channel_url)
        url = command_channel_url or dispatcher_env_vars.NNI_TUNER_COMMAND_CHANNEL or ""
        self._channel: Any = TunerCommandChannel(url)
        self._previous: dict[Any, Any] = {}  # sets of an experiment that is resumed, by their ids

    def run(self) -> None:
        """Receive commands and handle them until the channel ends, Terminate comes, or a handler fails.

        An exception of a handler is logged and added to ``worker_exceptions``.
        """
        _logger.info("Dispatcher started")
        if dispatcher_env_vars.NNI_MODE == "resume":
            self.load_checkpoint()
        while not (self.stopping or self.worker_exceptions):
            command, data = self._channel._receive()
            if command is None or command is CommandType.Terminate:
                break
            self.enqueue_command(command, load(data) if data else data)
        _logger.info("Dispatcher exiting...")
        self.stopping = True
        self._channel.disconnect()

    def send(self, command: CommandType, data: str) -> None:
        """Send a command: to the experiment that hosts this advisor, else through the channel."""
        if advisor.is_hosted():
            super().send(command, data)
        else:
            self._channel._send(command, data)

    def report_error(self, error: str) -> None:
        """Report an error, which ends the experiment."""
        self.send(CommandType.Error, error)

    def enqueue_command(self, command: CommandType, data: Any) -> None:
        """Handle a command at once. Log an exception and add it to ``worker_exceptions``."""
        try:
            self.process_command(command, data)
        except Exception as error:
            _logger.exception("%s failed", command)
            self.worker_exceptions.append(error)

    def process_command(self, command: CommandType, data: Any) -> None:
        """Call the method for a command. Raise AssertionError if there is none."""
        handlers: dict[CommandType, Callable[[Any], None]] = {
            CommandType.Initialize: self.handle_initialize,
            CommandType.RequestTrialJobs: self.handle_request_trial_jobs,
            CommandType.UpdateSearchSpace: self.handle_update_search_space,
            CommandType.ImportData: self.handle_import_data,
            CommandType.AddCustomizedTrialJob: self.handle_add_customized_trial,
            CommandType.ReportMetricData: self.handle_report_metric_data,
            CommandType.TrialEnd: self.handle_trial_end,
            CommandType.Ping: self.handle_ping,
        }
        if command not in handlers:
            raise AssertionError(f"Unsupported command: {command}")
        handlers[command](data)

    def handle_ping(self, data: Any) -> None:
        """Do nothing: a ping keeps the channel open."""

    # ---- sets of an experiment that is resumed ------------------------------------------------------------

    def recover_parameter_id(self, data: Any) -> int:
        """Remember the parameter records of earlier trials. Return the highest parameter id, or -1."""
        for record in data if isinstance(data, list) else [data]:
            found = json.loads(record) if isinstance(record, str) else record
            self._previous[found["parameter_id"]] = found["parameters"]
        return max((key for key in self._previous if isinstance(key, int)), default=-1)

    def is_created_in_previous_exp(self, param_id: Any) -> bool:
        """Return whether ``recover_parameter_id`` has got a set with this id."""
        return param_id in self._previous

    def get_previous_param(self, param_id: Any) -> Any:
        """Return a set that ``recover_parameter_id`` has got. Raise KeyError."""
        return self._previous[param_id]
