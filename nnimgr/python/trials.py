"""Trials of an experiment as objects: their results, checkpoints and logs, and changes of their course."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, overload

from nnimgr.python.connection import Connection
from nnimgr.python.errors import ArgumentError, Error, warn
from nnimgr.spelling import nearest

__all__ = ["Checkpoint", "Leg", "Trial", "Trials"]

_MOST_POINTS = 10_000


class Checkpoint(NamedTuple):
    """Saved state of a trial. ``state``: "saved", or why it cannot be used: "deleted" or "unusable".

    ``step``: the number of steps that the trial had completed, if it has said so. ``size``: bytes.
    """

    attempt: int
    number: int
    step: int | None
    size: int
    state: str


class Leg(NamedTuple):
    """Stretch of a trial with other parameters, which continues from a checkpoint.

    ``origin_trial``: id of the trial that saved the checkpoint. ``step``: the checkpoint's step.
    """

    number: int
    parameters: Any
    origin_trial: str
    step: int | None
    reason: str


class Trial:
    """Trial of an experiment, as it was when the object was created. ``refresh`` reads it again.

    ``number``: the trial's number, from 0. ``value``: its result, or the main objective of its result.
    ``reason``: why it waits, or how it has ended.
    """

    def __init__(self, connection: Connection, fields: Mapping[str, Any]) -> None:
        self._connection = connection
        self._fields = fields

    def __repr__(self) -> str:
        value = "" if self.value is None else f", value {self.value:.6g}"
        return f"<Trial {self.number} ({self.id}) {self.status}{value}>"

    @property
    def id(self) -> str:
        return str(self._fields["id"])

    @property
    def number(self) -> int:
        return int(self._fields["sequence"])

    @property
    def status(self) -> str:
        return str(self._fields["status"])

    @property
    def parameters(self) -> Any:
        return self._fields["parameters"]

    @property
    def value(self) -> float | None:
        found = self._fields["finalValue"]
        return None if found is None else float(found)

    @property
    def result(self) -> Any:
        """The final result as the trial has reported it: a number or a dict. None: there is none yet."""
        import json

        text = self._fields["finalText"]
        return None if text is None else json.loads(text)

    @property
    def latest(self) -> float | None:
        """The latest intermediate result."""
        found = self._fields["latestValue"]
        return None if found is None else float(found)

    @property
    def reason(self) -> str:
        return str(self._fields["reason"] or "")

    @property
    def attempt(self) -> int:
        return int(self._fields["attempt"])

    @property
    def started(self) -> datetime | None:
        return _instant(self._fields["startedAt"])

    @property
    def ended(self) -> datetime | None:
        return _instant(self._fields["endedAt"])

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints of all attempts, in the order in which they were saved."""
        found = self._detail()["checkpoints"]
        return [Checkpoint(*(each[name] for name in Checkpoint._fields)) for each in found]

    @property
    def legs(self) -> list[Leg]:
        """The legs after the first one: what a scheduler has changed while the trial ran."""
        return [
            Leg(each["leg"], each["parameters"], each["originTrialId"], each["step"], each["reason"])
            for each in self._detail()["legs"]
        ]

    def refresh(self) -> Trial:
        """Read the trial again, and return it."""
        self._fields = self._detail()
        return self

    def curve(self, name: str | None = None) -> list[tuple[int, float]]:
        """Return the intermediate results, each with its number from 0.

        ``name``: a metric of results that are dicts. None: the number that counts. A very long curve is
        returned with fewer points. Raise ArgumentError if no result has the metric.
        """
        import json

        metrics = self._connection.get("trials", self.id, "curve", points=_MOST_POINTS)["metrics"]
        if name is None:
            values = [metric["value"] for metric in metrics]
        else:
            results = [json.loads(metric["text"]) for metric in metrics]
            dicts = [result for result in results if isinstance(result, dict)]
            if results and not any(name in each for each in dicts):
                raise ArgumentError(_no_metric(name, dicts))
            values = [result.get(name) if isinstance(result, dict) else None for result in results]
        return [
            (int(metric["sequence"]), number)
            for metric, value in zip(metrics, values, strict=True)
            if (number := _float(value)) is not None
        ]

    def logs(self, name: str = "stdout", *, attempt: int | None = None) -> str:
        """Return what the trial has printed. ``name``: "stdout" or "stderr". Default: the latest attempt."""
        query = {} if attempt is None else {"attempt": attempt}
        return self._connection.read("trials", self.id, "logs", name, **query).decode("utf-8", "replace")

    def pause(self) -> None:
        """Pause the trial. If it can, it saves its state first. It then holds no slot."""
        self._connection.post("trials", self.id, "pause")

    def resume(self) -> None:
        """Continue a paused trial from its last checkpoint, as soon as a slot is free."""
        self._connection.post("trials", self.id, "resume")

    def stop(self) -> None:
        """Cancel the trial."""
        self._connection.post("trials", self.id, "stop")

    def fork(
        self,
        parameters: Mapping[str, Any] | None = None,
        *,
        at: Checkpoint | None = None,
        raise_limit: bool = False,
    ) -> Trial:
        """Add a trial that continues from a checkpoint of this trial, and return it.

        ``parameters``: those that differ from the parameters of this trial. ``at``: the checkpoint; default:
        the newest one. This trial is not changed. A value outside of the search space is used, with a
        ``UserWarning``. ``raise_limit``: if the limit ``trials`` is reached, raise it for this trial.
        """
        body: dict[str, Any] = {"raiseLimit": True} if raise_limit else {}
        if parameters is not None:
            body["parameters"] = {**self.parameters, **parameters}
        if at is not None:
            body["checkpoint"] = {"attempt": at.attempt, "number": at.number}
        added = self._connection.add("trials", self.id, "fork", body=body)
        for sentence in added["warnings"]:
            warn(sentence)
        return Trial(self._connection, self._connection.get("trials", added["id"]))

    def _detail(self) -> Any:
        return self._connection.get("trials", self.id)


class Trials:
    """Trials of an experiment, in the order of their numbers. They are read page by page.

    ``run.trials[3]`` is the trial with this number, and ``run.trials["k3x9z"]`` that with this id.
    ``run.trials[-5:]`` is a list.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<Trials of experiment {self._connection.id}: {len(self)}>"

    def __len__(self) -> int:
        return int(self._connection.get("trials", limit=1)["total"])

    def __iter__(self) -> Iterator[Trial]:
        return (Trial(self._connection, fields) for fields in self._connection.pages())

    @overload
    def __getitem__(self, key: int | str) -> Trial: ...

    @overload
    def __getitem__(self, key: slice) -> list[Trial]: ...

    def __getitem__(self, key: int | str | slice) -> Trial | list[Trial]:
        if isinstance(key, slice):
            return list(self)[key]
        if isinstance(key, str):
            return Trial(self._connection, self._connection.get("trials", key))
        if key < 0:
            key += len(self)
        page = self._connection.get("trials", offset=key, limit=1)["trials"] if key >= 0 else []
        if not page or page[0]["sequence"] != key:
            page = [each for each in self._connection.pages(search=str(key)) if each["sequence"] == key]
        if not page:
            raise IndexError(f"there is no trial {key} in experiment {self._connection.id}")
        return Trial(self._connection, page[0])

    def with_status(self, *statuses: str) -> Iterator[Trial]:
        """Yield the trials that have one of these statuses, such as "RUNNING" or "FAILED"."""
        if not statuses:
            raise Error("with_status() needs at least one status.")
        return (Trial(self._connection, fields) for fields in self._connection.pages(status=list(statuses)))


def _no_metric(name: str, results: list[dict[str, Any]]) -> str:
    """Return the message of the error that none of these intermediate results has the metric ``name``."""
    known = list(dict.fromkeys(metric for result in results for metric in result))
    if not known:
        return f"name: the intermediate results are no dicts, so they have no metric {name!r}"
    near = nearest(name, known)
    hint = "" if near is None else f"; did you mean {near!r}?"
    return f"name: no intermediate result has the metric {name!r}{hint} (valid: {', '.join(known)})"


def _float(value: Any) -> float | None:
    """Convert a number to a float, which may be NaN or infinite. Return None for an integer beyond the range
    of a float, and for anything that is not a number.
    """
    try:
        return float(value) if type(value) in (int, float) else None
    except OverflowError:
        return None


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
