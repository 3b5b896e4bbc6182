"""Facts about the search: what tuner, assessor and scheduler have said, and what users have told them.

``nnimgr.rules.facts`` re-exports these records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnimgr.rules.terms import DecisionKind, Role, SuggestionSource
from training_services.base import Origin

__all__ = [
    "AlgorithmFailed",
    "AlgorithmRecovered",
    "DataImported",
    "Decided",
    "DecisionRefused",
    "FurtherSuggested",
    "ResultReused",
    "ResultTaken",
    "Reuse",
    "Suggested",
    "TunerExhausted",
    "Verdict",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Result of an earlier trial with the same parameters. ``text``: JSON text of its final metric."""

    trial_id: str
    text: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """Fact: a trial is created for a parameter set. ``parameters``: JSON text in the order of the search
    space.

    ``fed_to``: number of the last fact that the tuner knew when it suggested the set. ``tuner_state``: the
    result of the tuner's ``dump_state`` after the suggestion. ``parameter_id``: None for a customised trial.
    ``reuse``: the result that the trial gets instead of being run. ``request_key``: the client's idempotency
    key of a customised trial. ``origin``: checkpoint of another trial from which a fork continues.
    ``seed``: seed of a confirmation, which repeats trial ``retry_of``.
    """

    trial_id: str
    sequence: int
    source: SuggestionSource
    parameter_id: int | None
    parameters: str
    fed_to: int | None = None
    tuner_state: str | None = None
    retry_of: str | None = None
    reuse: Reuse | None = None
    request_key: str | None = None
    origin: Origin | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherSuggested:
    """Fact: a running multi-phase trial gets parameter set number ``index``, which has an id of its own.

    The trial's first set has number 0. ``parameters``: None if the tuner has no more sets. ``late``: the
    trial had ended before the set arrived, so the set is not used. ``fed_to``: number of the last fact that
    the tuner knew when it suggested the set. ``tuner_state``: the result of its ``dump_state`` after that.
    """

    trial_id: str
    index: int
    parameter_id: int | None
    parameters: str | None
    fed_to: int | None = None
    tuner_state: str | None = None
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTaken:
    """Fact: parameter set number ``index`` of a multi-phase trial has a result, which is sent to the tuner at
    once.

    The fact follows from the first FINAL metric of the set. ``text``: JSON text of that metric's value.
    """

    trial_id: str
    index: int
    parameter_id: int | None
    parameters: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReused:
    """Fact: the trial gets the result of an earlier trial with the same parameters, and is not run.

    ``source_id``: the earlier trial. ``text``: JSON text of its final metric. ``value``: the number in this
    metric. Earlier versions of nnimgr recorded a FINAL metric instead of this fact.
    """

    trial_id: str
    parameter_id: int | None
    source_id: str
    text: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerExhausted:
    """Fact: the tuner has no more parameter sets (NoMoreTrialError)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmFailed:
    """Fact: a tuner or assessor raised an exception or gave an invalid answer, or its process died.

    ``fatal``: the process is dead or useless. More than three fatal failures in a row, without an answer in
    between, lead to the status ERROR. ``hopeless``: a constructor or an import failed, which leads to ERROR
    at once. ``idle``: the process died without a pending request, so the failure is not counted.
    """

    role: Role
    call: str
    sentence: str
    traceback: str = ""
    fatal: bool = False
    hopeless: bool = False
    idle: bool = False
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmRecovered:
    """Fact: after a crash, the tuner or assessor has answered again, or has run for a while without a
    request.
    """

    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Fact: the assessor (or an advisor or scheduler, see ``by``) judges the trial bad at this metric.

    ``reason``: one sentence, or "". ``attempt`` is 0 and ``position`` is -1 if the verdict came before any
    metric; it then applies to any attempt.

    ``report``: number of the metric among those of the trial that count, from 1; None: ``position`` + 1.

    ``rung``: the step at which the trial was compared with others, if there are such steps. ``better``: a few
    of the trials with better results. ``cause``: number of the fact that led to a scheduler's verdict.
    """

    trial_id: str
    attempt: int
    position: int
    reason: str = ""
    rung: int | None = None
    better: tuple[str, ...] = ()
    report: int | None = None
    by: Role = Role.ASSESSOR
    cause: int | None = None

    @property
    def when(self) -> str:
        """End of a sentence: at which of its reports the trial was judged bad."""
        number = self.position + 1 if self.report is None else self.report
        return f"at report {number}" if number else "before its first report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Fact: the scheduler pauses, continues, exploits or resizes a trial. A stop is the fact Verdict instead.

    ``cause``: number of the fact that led to the decision. ``reason``: one sentence. ``rung``, ``better``: as
    in Verdict. In an exploit, the trial's next leg begins: it continues with ``parameters`` (JSON text) from
    the checkpoint ``checkpoint`` (attempt and number) of the trial ``donor``. A resized trial continues with
    ``resources``: fields such as trialCpuNumber, with their new values (memory in MiB).
    """

    trial_id: str
    kind: DecisionKind
    cause: int
    reason: str
    parameters: str | None = None
    donor: str | None = None
    checkpoint: tuple[int, int] | None = None
    rung: int | None = None
    better: tuple[str, ...] = ()
    resources: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRefused:
    """Fact: a decision of the scheduler is not carried out. ``reason``: why, in one sentence.

    ``cause``: number of the fact that led to the decision.
    """

    trial_id: str
    kind: DecisionKind
    cause: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataImported:
    """Fact: results from outside the experiment were imported.

    ``records``: JSON text of a list of {"parameter", "value"}.
    """

    records: str
