"""NNI's base class of advisors, with the loop in which NNI's own dispatcher receives commands.

nnimgr itself calls an advisor's ``handle_`` methods and does not use the loop. The method ``run`` exists for
users' tests that send commands through a channel.
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

    ``command_channel_url`` is used only outside an experiment. ``run`` handles commands one at a time, in the
    order of their arrival.
    """

    def __init__(self, command_channel_url: str | None = None) -> None:
        super().__init__(command_channel_url)
        url = command_channel_url or dispatcher_env_vars.NNI_TUNER_COMMAND_CHANNEL or ""
        self._channel: Any = TunerCommandChannel(url)
        self._previous: dict[Any, Any] = {}  # sets of an experiment that is resumed, by their ids

    def run(self) -> None:
        """Receive and handle commands until the channel is closed, the command Terminate arrives, or a
        handler fails.

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
        """Send a command to the experiment if this advisor belongs to one, else through the channel."""
        if advisor.is_hosted():
            super().send(command, data)
        else:
            self._channel._send(command, data)

    def report_error(self, error: str) -> None:
        """Send the command Error, which ends the experiment."""
        self.send(CommandType.Error, error)

    def enqueue_command(self, command: CommandType, data: Any) -> None:
        """Handle a command at once. If this fails, log the exception and add it to ``worker_exceptions``."""
        try:
            self.process_command(command, data)
        except Exception as error:
            _logger.exception("%s failed", command)
            self.worker_exceptions.append(error)

    def process_command(self, command: CommandType, data: Any) -> None:
        """Call the ``handle_`` method for a command. Raise AssertionError if there is no method for it."""
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
        """Do nothing. The command Ping only keeps the channel open."""

    # ---- parameter sets from before an experiment was resumed ---------------------------------------------

    def recover_parameter_id(self, data: Any) -> int:
        """Store the parameter sets of trials from before a resume.

        Return the highest parameter id, or -1 if there is none.
        """
        for record in data if isinstance(data, list) else [data]:
            found = json.loads(record) if isinstance(record, str) else record
            self._previous[found["parameter_id"]] = found["parameters"]
        return max((key for key in self._previous if isinstance(key, int)), default=-1)

    def is_created_in_previous_exp(self, param_id: Any) -> bool:
        """Return whether ``recover_parameter_id`` has stored a parameter set with this id."""
        return param_id in self._previous

    def get_previous_param(self, param_id: Any) -> Any:
        """Return the parameter set with this id that ``recover_parameter_id`` has stored.

        Raise KeyError if there is none.
        """
        return self._previous[param_id]
