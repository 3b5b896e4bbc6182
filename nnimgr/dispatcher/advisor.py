"""Adapter that makes a user's own advisor look like a tuner that waits for results."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnimgr.advisor import Advisor, CommandType, connect
from nnimgr.algorithm import NoMoreTrialError, Tuner

__all__ = ["AdvisorTuner"]


@dataclass(slots=True)
class _Sent:
    """Parameter set of a trial that the advisor has created. ``text``: the advisor's JSON text.

    ``theirs``: the advisor's own id of the set.
    """

    text: str
    theirs: Any
    parameters: Any


def _nobody(parameter_id: int, parameters: Any) -> None:
    pass


class AdvisorTuner(Tuner):
    """Tuner that passes its calls to an advisor as commands, and returns the trials that the advisor creates.

    ``stop`` is called with the id of each trial that the advisor wants to stop.
    """

    waits = True  # sets may come during any later call
    wants_status = True

    def __init__(self, advisor: Advisor, *, stop: Callable[[str], None]) -> None:
        self._advisor, self._stop = advisor, stop
        self._initialized = False
        self._requested: set[int] = set()  # ids for which the advisor was asked for a trial
        self._ready: deque[_Sent] = deque()
        self._lock = threading.Lock()  # of the two fields before, for advisors with threads of their own
        self._host = threading.get_ident()
        self._give: Callable[[int, Any], None] = _nobody  # gives a set for an id to the host
        self._running: dict[int, _Sent] = {}  # sets that were handed out, until their trials end
        self._no_more = False  # True: the advisor has reported that no set follows its last set
        connect(self._take)

    # ---- calls of the host (TunerHost) --------------------------------------------------------------------

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        first, self._initialized = not self._initialized, True
        handle = self._advisor.handle_initialize if first else self._advisor.handle_update_search_space
        handle(search_space)

    def generate_multiple_parameters(
        self, parameter_id_list: list[int], *, st_callback: Callable[[int, Any], None] = _nobody, **_: Any
    ) -> list[Any]:
        """Return the sets that the advisor has now, for the first ids; none if it waits for results.

        ``st_callback``: takes sets that a thread of the advisor creates later. Raise NoMoreTrialError if the
        advisor has no more sets and none of its trials is running.
        """
        self._give = st_callback
        for parameter_id in parameter_id_list:
            if (
                refused := self._running.pop(parameter_id, None)
            ) is not None:  # the server asks for this set again
                self._end(refused, trial_id="", status="SYS_CANCELED")
        with self._lock:
            new = set(parameter_id_list) - self._requested
            self._requested |= new
        if new:
            self._advisor.handle_request_trial_jobs(len(new))
        given = []
        with self._lock:
            wanted = [each for each in parameter_id_list if each in self._requested]
            for parameter_id in wanted[: len(self._ready)]:
                sent = self._running[parameter_id] = self._ready.popleft()
                self._requested.discard(parameter_id)
                given.append(sent.parameters)
        if not given and self._no_more and not self._running:
            self._requested -= set(parameter_id_list)
            raise NoMoreTrialError
        return given

    def why_waiting(self) -> str:
        if self._running:
            return "the advisor waits for the results of trials"
        return "the advisor has not created a trial yet"

    def receive_trial_result(
        self, parameter_id: int, parameters: Any, value: Any, *, trial_job_id: str = "", **_: Any
    ) -> None:
        if (sent := self._running.get(parameter_id)) is not None:
            self._report(sent, trial_job_id, "FINAL", 0, json.dumps(value))

    def receive_intermediate_result(
        self, parameter_id: int, parameters: Any, value: Any, *, sequence: int, trial_job_id: str
    ) -> None:
        if (sent := self._running.get(parameter_id)) is not None:
            self._report(sent, trial_job_id, "PERIODICAL", sequence, json.dumps(value))

    def trial_end(
        self, parameter_id: int, success: bool, *, trial_job_id: str = "", status: str = "", **_: Any
    ) -> None:
        if (sent := self._running.pop(parameter_id, None)) is not None:
            self._end(sent, trial_id=trial_job_id, status=status)

    def import_data(self, data: list[Any]) -> None:
        self._advisor.handle_import_data(data)

    def load_checkpoint(self) -> None:
        self._advisor.load_checkpoint()

    def _on_exit(self) -> None:
        self._advisor.stopping = True
        getattr(self._advisor, "_on_exit", lambda: None)()

    def _report(self, sent: _Sent, trial_id: str, kind: str, sequence: int, text: str) -> None:
        data = {"parameter_id": sent.theirs, "trial_job_id": trial_id, "type": kind}
        self._advisor.handle_report_metric_data(data | {"sequence": sequence, "value": text})

    def _end(self, sent: _Sent, *, trial_id: str, status: str) -> None:
        data = {"trial_job_id": trial_id, "event": status, "hyper_params": sent.text}
        self._advisor.handle_trial_end(data)

    # ---- commands from the advisor ------------------------------------------------------------------------

    def _take(self, command: CommandType, data: str) -> None:
        """Execute a command from the advisor. Raise ValueError if an advisor cannot send this command."""
        match command:
            case CommandType.NewTrialJob:
                self._no_more = False
                self._created(_sent(data))
            case CommandType.NoMoreTrialJobs:
                self._no_more = True
            case CommandType.KillTrialJob:
                self._stop(json.loads(data) if data.startswith('"') else data)
            case CommandType.Error:
                raise RuntimeError(data)
            case CommandType.Initialized:
                pass
            case _:
                raise ValueError(f"an advisor cannot send {command.name} here; it can send {_POSSIBLE}")

    def _created(self, sent: _Sent) -> None:
        """Keep a set until the host asks for sets. If a thread of the advisor has created it, give it to the
        host at once.
        """
        with self._lock:
            if threading.get_ident() == self._host or not self._requested:
                self._ready.append(sent)
                return
            # The last id, because a call that is going on gives its sets to the first ids.
            parameter_id = max(self._requested)
            self._requested.discard(parameter_id)
            self._running[parameter_id] = sent
        self._give(parameter_id, sent.parameters)


_POSSIBLE = "NewTrialJob, NoMoreTrialJobs, KillTrialJob and Initialized"


def _sent(text: str) -> _Sent:
    record = json.loads(text)
    if not isinstance(record, dict) or not {"parameter_id", "parameters"} <= record.keys():
        raise ValueError(f"NewTrialJob needs an object with parameter_id and parameters, not {text:.200}")
    return _Sent(text=text, theirs=record["parameter_id"], parameters=record["parameters"])
