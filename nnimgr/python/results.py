"""Results of an experiment, read from its server when they are used."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nnimgr.client.experiments import ENDED
from nnimgr.python.connection import Connection
from nnimgr.python.errors import ArgumentError, NoResult, with_calls
from nnimgr.python.trials import Trial, Trials

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["Confirmed", "Results"]


class Confirmed(NamedTuple):
    """Trial that was run again with other seeds. ``trial.value`` is its result in the search.

    ``mean``, ``deviation``, ``interval``: mean, standard deviation and 95 % confidence interval of the mean
    of the new results; None: there are too few. ``usable``, ``unusable``, ``open``: number of new runs with a
    usable result, without one, and of those that have not ended.
    """

    trial: Trial
    mean: float | None
    deviation: float | None
    interval: tuple[float, float] | None
    usable: int
    unusable: int
    open: int


class Results:
    """Results of an experiment::

        results = tune(train, SPACE, maximize="accuracy", trials=50)
        print(results.best_params, results.best_value)
        frame = results.to_pandas()

    Nothing is read before it is used. While the experiment runs, ``run.results()`` gives the present results.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.trials = Trials(connection)

    def __repr__(self) -> str:
        best = self._profile["bestTrial"]
        none = "no result" if self._profile["status"] in ENDED else "no result yet"
        shown = none if best is None else f"best {best['value']:.6g} by trial {best['sequence']}"
        return f"<Results of {self._connection.id}: {self._profile['status']}, {shown}>"

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    @cached_property
    def _profile(self) -> Any:
        return self._connection.get()

    @property
    def status(self) -> str:
        return str(self._profile["status"])

    @property
    def best(self) -> Trial:
        """The trial with the best result; with several objectives, the first one decides.

        Raises NoResult if there is none yet.
        """
        best = self._profile["bestTrial"]
        if best is None:
            raise self._no_result()
        return self.trials[str(best["trialId"])]

    @property
    def best_params(self) -> Any:
        """The parameters of the best trial. Raises NoResult if there is none yet."""
        return self.best.parameters

    @property
    def best_value(self) -> float:
        """The best result. Raises NoResult if there is none yet."""
        best = self._profile["bestTrial"]
        if best is None:
            raise self._no_result()
        return float(best["value"])

    @property
    def confirmed(self) -> list[Confirmed]:
        """The trials that were run again with other seeds (``confirm_best``), the best mean first.

        The list is empty if the experiment confirms no trials, or if the search has not ended.
        """
        found = self._profile["confirmations"] or {"trials": ()}
        return [
            Confirmed(
                trial=self.trials[str(each["trialId"])],
                mean=each["mean"],
                deviation=each["deviation"],
                interval=None if each["low"] is None else (each["low"], each["high"]),
                usable=each["usable"],
                unusable=each["unusable"],
                open=each["open"],
            )
            for each in found["trials"]
        ]

    @property
    def pareto(self) -> list[Trial]:
        """The Pareto set: no other trial is better in one objective and as good in all others."""
        found = self._connection.get("analysis", "pareto", limit=10_000)["trials"]
        return [self.trials[str(each["trialId"])] for each in found]

    @property
    def errors(self) -> list[Trial]:
        """The failed trials. ``trial.reason`` says why, and ``trial.logs("stderr")`` has the traceback."""
        return list(self.trials.with_status("FAILED"))

    def top(self, count: int = 10) -> list[Trial]:
        """Return the SUCCEEDED trials with the best results in the search, the best one first."""
        order = "asc" if self._profile["optimizeMode"] == "minimize" else "desc"
        found: list[Trial] = []
        for fields in self._connection.pages(sort="value", order=order, status=["SUCCEEDED"]):
            if len(found) == count or fields["finalValue"] is None:
                break
            if fields["source"] == "confirmation":
                continue
            found.append(Trial(self._connection, fields))
        return found

    def curves(self, name: str | None = None) -> dict[int, list[tuple[int, float]]]:
        """Return the intermediate results of all trials: the trial's number -> its ``curve(name)``.

        Trials without the metric are left out. Raise ArgumentError if no trial has it.
        """
        found, fault = {}, None
        for trial in self.trials:
            try:
                curve = trial.curve(name)
            except ArgumentError as error:
                fault = error
                continue
            if curve:
                found[trial.number] = curve
        if fault is not None and not found:
            raise fault
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """Return all trials as a data frame, with one row for each trial. The index is the trial's number.

        Its columns are the parameters, ``value``, ``status``, further metrics and times. A name that is both
        a parameter and something else has a prefix: ``parameters.status``. A parameter that is None is a
        missing value.
        """
        from nnimgr.python.frames import frame_of

        return frame_of(self._connection.read("columns", exact="true"), self._profile["searchSpace"])

    def to_arrow(self) -> pyarrow.Table:
        """Return all trials as an Arrow table, with one row for each trial.

        Its columns are the trial's ``number`` and ``id``, and those of ``to_pandas``. The server needs
        pyarrow, too.
        """
        from nnimgr.python.frames import table_of

        return table_of(partial(self._connection.read, "trials", "export", format="arrow"))

    def get_best_result(self) -> Trial:
        """Return the best trial, as ``best`` does. Ray Tune has this name."""
        return self.best

    def get_dataframe(self) -> pandas.DataFrame:
        """Return all trials as a data frame, as ``to_pandas`` does. Ray Tune has this name."""
        return self.to_pandas()

    def _no_result(self) -> NoResult:
        from nnimgr.cli.failures import failure_lines

        profile, experiment_id = self._profile, self._connection.id
        counts = ", ".join(f"{count} {status}" for status, count in profile["counts"].items() if count)
        runs = profile["status"] == "RUNNING"
        state = (
            profile["status"]
            if runs or not profile["reason"]
            else f"{profile['status']}: {profile['reason']}"
        )
        has = "has a usable result yet" if runs else "has a usable result"
        sentences = [f"No trial of experiment {experiment_id} {has}: {counts or 'none was created'}."]
        failed, without = self._newest("FAILED"), self._newest("SUCCEEDED")
        for trial, sentence in (
            (failed, "" if failed is None else failure_lines(failed, experiment_id)[0]),
            (without, "" if without is None else f"Trial {without['sequence']}: {without['reason']}"),
        ):
            if trial is not None and trial["reason"] not in state:
                sentences.append(f"{sentence.removesuffix('.')}.")
        sentences.append(f"The experiment is {state.removesuffix('.')}.")
        hint = "To wait for its end: run.wait()" if runs else ""
        if failed:
            hint = "See results.errors, and trial.logs('stderr') of one of them."
        return NoResult(with_calls(" ".join(sentences)), hint=hint)

    def _newest(self, status: str) -> Any:
        """Return the fields of the trial that was the last one to end with this status, or None."""
        query = {"status": [status], "sort": "ended", "order": "desc", "limit": 1}
        return next(iter(self._connection.get("trials", **query)["trials"]), None)
