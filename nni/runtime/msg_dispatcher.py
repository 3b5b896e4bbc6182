"""NNI's dispatcher, which calls a tuner and an assessor for the commands that NNI's manager sends.

Experiments of nnimgr use ``nnimgr.dispatcher`` instead. This class is for users' tests of tuners and
assessors that use NNI's protocol.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any

from nni._trace import dump, load
from nni.runtime.common import multi_phase_enabled
from nni.runtime.env_vars import dispatcher_env_vars
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.tuner_command_channel import CommandType
from nni.runtime.tuner_command_channel.legacy import LegacyCommandChannel
from nni.utils import MetricType
from nnimgr.algorithm import Assessor, AssessResult, NoMoreTrialError, Tuner

__all__ = ["MsgDispatcher"]

_logger = logging.getLogger(__name__)

# These global variables have NNI's names, because users' tests and tuners access them.
_next_parameter_id = 0
_trial_params: dict[Any, Any] = {}  # parameter id -> parameters
_customized_parameter_ids: set[Any] = set()
_trial_history: dict[str, dict[int, Any]] = {}  # running trial -> sequence number -> intermediate result
_ended_trials: set[str] = set()


def _create_parameter_id() -> int:
    """Return a new parameter id: 0, 1, 2, ... in this process."""
    global _next_parameter_id
    _next_parameter_id += 1
    return _next_parameter_id - 1


def _pack_parameter(
    parameter_id: Any,
    params: Any,
    customized: bool = False,
    trial_job_id: str | None = None,
    parameter_index: int | None = None,
) -> str:
    """Return a parameter set with its id as JSON text. Also store the set until its result arrives."""
    _trial_params[parameter_id] = params
    record = {
        "parameter_id": parameter_id,
        "parameter_source": "customized" if customized else "algorithm",
        "parameters": params,
    }
    if trial_job_id is not None:
        record["trial_job_id"] = trial_job_id
    record["parameter_index"] = parameter_index or 0
    return str(dump(record))


def _sort_history(history: dict[int, Any]) -> list[Any]:
    """Return a trial's intermediate results in order, up to the first sequence number that is missing."""
    return [history[number] for number in itertools.takewhile(history.__contains__, itertools.count())]


class MsgDispatcher(MsgDispatcherBase):
    """Dispatcher that passes commands to one tuner and, optionally, one assessor.

    ``MsgDispatcher(tuner, assessor)`` is how NNI 2 calls the constructor. The object then reads and writes
    the files that ``nni.runtime.protocol`` describes.
    """

    def __init__(self, command_channel_url: Any, tuner: Any = None, assessor: Any = None) -> None:
        of_nni_2 = isinstance(command_channel_url, Tuner) or isinstance(tuner, Assessor)
        super().__init__(None if of_nni_2 else command_channel_url)
        self.tuner, self.assessor = (command_channel_url, tuner) if of_nni_2 else (tuner, assessor)
        if of_nni_2:
            self._channel = LegacyCommandChannel()

    def load_checkpoint(self) -> None:
        """Call the method ``load_checkpoint`` of the tuner and of the assessor."""
        for algorithm in self._algorithms():
            algorithm.load_checkpoint()

    def save_checkpoint(self) -> None:
        """Call the method ``save_checkpoint`` of the tuner and of the assessor."""
        for algorithm in self._algorithms():
            algorithm.save_checkpoint()

    def _algorithms(self) -> list[Any]:
        return [each for each in (self.tuner, self.assessor) if each is not None]

    def handle_initialize(self, data: dict[str, Any]) -> None:
        """Pass the first search space to the tuner, and send the command Initialized."""
        self.tuner.update_search_space(data)
        self.send(CommandType.Initialized, "")

    def handle_update_search_space(self, data: dict[str, Any]) -> None:
        """Pass a changed search space to the tuner."""
        self.tuner.update_search_space(data)

    def send_trial_callback(self, id_: Any, params: Any) -> None:
        """Send a parameter set for a new trial. A tuner may also call this later, without a further
        request.
        """
        self.send(CommandType.NewTrialJob, _pack_parameter(id_, params))

    def handle_request_trial_jobs(self, data: int) -> None:
        """Send ``data`` (a number) parameter sets from the tuner.

        If the tuner returns fewer sets, also send NoMoreTrialJobs.
        """
        ids = [_create_parameter_id() for _ in range(data)]
        found = self.tuner.generate_multiple_parameters(ids, st_callback=self.send_trial_callback)
        for parameter_id, parameters in zip(ids, found, strict=False):
            self.send_trial_callback(parameter_id, parameters)
        if len(found) < len(ids):
            self.send(CommandType.NoMoreTrialJobs, _pack_parameter(ids[0], ""))

    def handle_import_data(self, data: list[dict[str, Any]]) -> None:
        """Pass results from other experiments to the tuner. A result that is a text is decoded from JSON."""
        for entry in data:
            if isinstance(entry["value"], str):
                entry["value"] = load(entry["value"])
        self.tuner.import_data(data)

    def handle_add_customized_trial(self, data: Any) -> None:
        """Store the earlier parameter sets of an experiment that is resumed.

        New parameter ids are higher than the ids of these sets.
        """
        global _next_parameter_id
        _next_parameter_id = self.recover_parameter_id(data) + 1

    def handle_report_metric_data(self, data: dict[str, Any]) -> None:
        """Pass a final result to the tuner, and an intermediate result to the assessor.

        If a multi-phase trial requests its next parameter set, send it. Raise ValueError for another type of
        metric.
        """
        kind, parameter_id = data["type"], data.get("parameter_id")
        if self.is_created_in_previous_exp(parameter_id):
            if kind == MetricType.FINAL:
                parameters = self.get_previous_param(parameter_id)
                self.handle_import_data([{"parameter": parameters, "value": data["value"]}])
            return
        if "value" in data:
            data["value"] = load(data["value"])
        if kind == MetricType.FINAL:
            self._take_result(data)
        elif kind == MetricType.PERIODICAL:
            if self.assessor is not None and data["trial_job_id"] not in _ended_trials:
                self._assess(data)
        elif kind == MetricType.REQUEST_PARAMETER:
            self._give_next_set(data)
        else:
            raise ValueError(f"Data type not supported: {kind}")

    def handle_trial_end(self, data: dict[str, Any]) -> None:
        """Report the end of a trial to the tuner, and to the assessor if the trial had intermediate
        results.
        """
        parameter_id = load(data["hyper_params"])["parameter_id"] if "hyper_params" in data else None
        if self.is_created_in_previous_exp(parameter_id):
            return
        trial_job_id, success = data["trial_job_id"], data["event"] == "SUCCEEDED"
        _ended_trials.add(trial_job_id)
        if _trial_history.pop(trial_job_id, None) is not None and self.assessor is not None:
            self.assessor.trial_end(trial_job_id, success)
        if self.tuner is not None:
            self.tuner.trial_end(parameter_id, success)

    def _take_result(self, data: dict[str, Any]) -> None:
        parameter_id = data["parameter_id"]
        customized = parameter_id is None or parameter_id in _customized_parameter_ids
        if customized and not getattr(self.tuner, "_accept_customized", False):
            _logger.info("The tuner does not take the result of the user's trial %s", parameter_id)
        elif parameter_id not in _trial_params:
            _logger.warning("The result of the unknown parameter id %s is ignored", parameter_id)
        else:
            self.tuner.receive_trial_result(
                parameter_id,
                _trial_params[parameter_id],
                data["value"],
                customized=customized,
                trial_job_id=data.get("trial_job_id"),
            )

    def _assess(self, data: dict[str, Any]) -> None:
        """Let the assessor judge a trial after an intermediate result, and stop the trial if it is judged
        bad.

        Do nothing while an earlier result is missing. Raise RuntimeError if the assessor does not return an
        AssessResult.
        """
        trial_job_id = data["trial_job_id"]
        history = _trial_history.setdefault(trial_job_id, {})
        history[data["sequence"]] = data["value"]
        values = _sort_history(history)
        if len(values) < data["sequence"]:
            return
        result = self.assessor.assess_trial(trial_job_id, values)
        if not isinstance(result, bool | AssessResult):
            raise RuntimeError(f"assess_trial must return an AssessResult, not {result!r:.100}")
        if AssessResult(result) is AssessResult.Bad:
            self.send(CommandType.KillTrialJob, str(dump(trial_job_id)))
            if dispatcher_env_vars.NNI_INCLUDE_INTERMEDIATE_RESULTS == "true":
                final = {**data, "type": MetricType.FINAL, "value": dump(data["value"])}
                self.enqueue_command(CommandType.ReportMetricData, final)

    def _give_next_set(self, data: dict[str, Any]) -> None:
        """Send the next parameter set of a multi-phase trial.

        Raise AssertionError if trials are not multi-phase.
        """
        assert multi_phase_enabled(), "a trial asks for a second parameter set, but is not multi-phase"
        trial_job_id, parameter_id = data["trial_job_id"], _create_parameter_id()
        try:
            found = self.tuner.generate_parameters(parameter_id, trial_job_id=trial_job_id)
        except NoMoreTrialError:
            found = None
        record = _pack_parameter(
            parameter_id, found, trial_job_id=trial_job_id, parameter_index=data["parameter_index"]
        )
        self.send(CommandType.SendTrialJobParameter, record)
