"""Tests that every sink should pass."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from nnimgr.sink import (
    Event,
    Experiment,
    ExperimentMoved,
    Reported,
    Sink,
    TrialCreated,
    TrialEnded,
    TrialRestarted,
    TrialStarted,
)

__all__ = ["SinkConformance", "story"]

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}, "c": {"_type": "choice", "_value": ["a", "b"]}}


def story() -> list[Event]:
    """Return the events of an experiment: trials that end in all ways, rollbacks, and odd results."""
    told: list[Event] = []

    def own(trial: int) -> dict[str, Any]:
        number = 3 * len(told) + 1  # the numbers of events have gaps
        at = _BEGIN + timedelta(seconds=number)
        return {"number": number, "at": at, "trial": trial, "trial_id": f"tr{trial}"}

    def report(trial: int, steps: Sequence[int], *, more: float = 0) -> None:
        for step in steps:
            value = trial + step / 10 + more
            result = {"default": value, "loss": -value} if trial == 1 else value
            told.append(Reported(**own(trial), step=step, value=value, result=result))

    def end(trial: int, status: str, value: float | None, result: Any) -> None:
        told.append(TrialEnded(**own(trial), status=status, reason="so", value=value, result=result))

    told.append(ExperimentMoved(number=1, at=_BEGIN, status="RUNNING", reason="it runs"))
    for trial in range(4):
        parameters = {"x": trial / 4, "c": "ab"[trial % 2], "only here": [trial]}
        told.append(TrialCreated(**own(trial), parameters=parameters))
        told.append(TrialStarted(**own(trial), attempt=1))
    report(0, range(4))
    report(1, range(2))
    told.append(TrialRestarted(**own(0), step=2, attempt=2, reason="its machine was lost"))
    told.append(TrialStarted(**own(0), attempt=2))
    report(2, range(3))
    report(0, range(2, 5), more=100)
    end(0, "SUCCEEDED", 0.5, 0.5)
    told.append(TrialRestarted(**own(1), step=0, attempt=2, reason="other parameters", parameters={"x": 0.9}))
    report(1, range(1), more=50)
    end(1, "SUCCEEDED", 0.7, {"default": 0.7, "loss": 3.5, "top-1 (%)": 20, "big": 10**400})
    end(2, "EARLY_STOPPED", None, None)
    report(3, range(2))
    end(3, "FAILED", None, "no number: \u00e4")
    told.append(ExperimentMoved(number=3 * len(told) + 1, at=told[-1].at, status="DONE", reason="4 trials"))
    return told


class SinkConformance:
    """Base class for the tests of a sink. Override ``make`` and ``contents``.

    A sink passes if the place holds the same whatever the batches are, and wherever its process is killed.
    It also has to continue after the last event that it has written.
    """

    kills: ClassVar[Sequence[int]] = tuple(range(20, 2000, 97))  # executed lines before the process is killed

    def make(self, folder: Path) -> Sink:
        """Return a new sink that writes below this folder. This method is called several times."""
        raise NotImplementedError("override make() to return the sink under test")

    def contents(self, folder: Path) -> Any:
        """Return what is in the place, so that equal contents compare equal."""
        raise NotImplementedError("override contents() to return what the sink has written")

    def test_the_batches_make_no_difference(self, tmp_path: Path) -> None:
        events = story()
        expected = self._expected(tmp_path)
        for size in (1, 3, 7):
            folder = tmp_path / str(size)
            sink = self._opened(folder, expect=0)
            for first in range(0, len(events), size):
                sink.write(events[first : first + size])
            sink.close()
            assert self.contents(folder) == expected

    def test_it_continues_after_the_last_event(self, tmp_path: Path) -> None:
        """The sink is not closed before it is opened again, as if its process had been killed."""
        folder, written = tmp_path / "again", 0
        events = story()
        for first in range(0, len(events), 5):
            batch = events[first : first + 5]
            self._opened(folder, expect=written).write(batch)
            written = batch[-1].number
        self._opened(folder, expect=written).close()
        assert self.contents(folder) == self._expected(tmp_path)

    def test_a_kill_loses_and_doubles_nothing(self, tmp_path: Path) -> None:
        expected = self._expected(tmp_path)
        for lines in self.kills:
            folder = tmp_path / f"killed-{lines}"
            if not _killed_after(lines, partial(self._write_the_rest, folder)):
                break
            self._write_the_rest(folder)
            assert self.contents(folder) == expected, f"after a kill behind {lines} lines"

    def _expected(self, tmp_path: Path) -> Any:
        folder = tmp_path / "once"
        sink = self._opened(folder, expect=0)
        sink.write(story())
        sink.close()
        return self.contents(folder)

    def _write_the_rest(self, folder: Path) -> None:
        """Write all events that the place does not have, in batches."""
        sink = self._made(folder)
        written = sink.open(_experiment(folder))
        left = [event for event in story() if event.number > written]
        for first in range(0, len(left), 6):
            sink.write(left[first : first + 6])
        sink.close()

    def _opened(self, folder: Path, *, expect: int) -> Sink:
        sink = self._made(folder)
        assert sink.open(_experiment(folder)) == expect
        return sink

    def _made(self, folder: Path) -> Sink:
        folder.mkdir(exist_ok=True)
        return self.make(folder)


def _experiment(folder: Path) -> Experiment:
    return Experiment(
        id="exp",
        created_at=_BEGIN,
        name="a name",
        directory=folder,
        search_space=_SPACE,
        curve=_curve,
    )


def _curve(trial_id: str) -> list[tuple[int, datetime, float | None, Any]]:
    """Return the intermediate results of a trial that count at the end of the story."""
    found: dict[int, tuple[int, datetime, float | None, Any]] = {}
    for event in story():
        match event:
            case Reported() if event.trial_id == trial_id:
                found[event.step] = (event.step, event.at, event.value, event.result)
            case TrialRestarted() if event.trial_id == trial_id:
                found = {step: point for step, point in found.items() if step < event.step}
    return list(found.values())


def _killed_after(lines: int, call: Callable[[], None]) -> bool:
    """Make a call in a forked process that is killed after a number of executed lines of Python.

    Return False if the call has ended before.
    """
    pid = os.fork()
    if pid == 0:
        left = iter(range(lines))

        def trace(frame: Any, event: str, argument: Any) -> Any:
            if event == "line" and next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            call()
            sys.settrace(None)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "the sink has raised an error"
    return False
