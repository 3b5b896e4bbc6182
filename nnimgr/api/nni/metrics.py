"""A metric as NNI shows it. Its ``data`` is a JSON string of a JSON text: clients decode it twice."""

from __future__ import annotations

import json

from nnimgr.api.nni.javascript import quote
from nnimgr.store.counted import MetricLine

__all__ = ["metric_text"]


def metric_text(line: MetricLine) -> str:
    """The JSON of one metric."""
    return (
        f'{{"timestamp":{line.at_us // 1000},"trialJobId":"{line.trial_id}",'
        f'"parameterId":{_parameter_id(line.parameter_id)},"type":"{line.type}",'
        f'"sequence":{line.sequence},"data":{quote(quote(line.text))}}}'
    )


def _parameter_id(text: str | None) -> str:
    """NNI keeps it in a column of text: 0 becomes "0"."""
    if text is None:
        return "null"
    return quote(str(json.loads(text)) if text.startswith('"') else text)
