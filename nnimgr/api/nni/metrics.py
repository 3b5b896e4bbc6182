"""Metrics in NNI's format. ``data`` is a JSON string that contains JSON text: clients decode it twice."""

from __future__ import annotations

import json

from nnimgr.api.nni.javascript import quote
from nnimgr.objectives import objectives_of, with_default
from nnimgr.store.counted_metrics import MetricLine
from nnimgr.store.reader import ExperimentReader

__all__ = ["main_objective", "metric_text"]


def main_objective(reader: ExperimentReader) -> str | None:
    """Return the name of the experiment's main objective, or None if it has no objectives.

    NNI's clients expect the number of this objective under the key "default".
    """
    return next(iter(objectives_of(reader.experiment().config)), None)


def metric_text(line: MetricLine, main: str | None = None) -> str:
    """Return the JSON text of one metric in NNI's format.

    ``main``: the main objective, whose number is added under the key "default".
    """
    if main is not None and line.text.lstrip().startswith("{"):
        line = line._replace(text=json.dumps(with_default(json.loads(line.text), {main: ""})))
    return (
        f'{{"timestamp":{line.at_us // 1000},"trialJobId":"{line.trial_id}",'
        f'"parameterId":{_parameter_id(line.parameter_id)},"type":"{line.type}",'
        f'"sequence":{line.sequence},"data":{quote(quote(line.text))}}}'
    )


def _parameter_id(text: str | None) -> str:
    """Return the JSON text of a parameter id as NNI has it, always as a string: 0 becomes "0"."""
    if text is None:
        return "null"
    return quote(str(json.loads(text)) if text.startswith('"') else text)
