"""Converts each frame (record) of a trial's metrics file into one event. The functions never raise an error.

The frames come from user code and may contain anything. This is the hottest loop of the server (100,000
frames a second), so it builds named tuples, and reads the usual frame, one number, without a JSON parser.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from training_services.base import CheckpointReported, FrameSkipped, MetricReported, ParametersWanted

__all__ = ["Event", "number_in", "read_frame", "read_frames"]

Event = MetricReported | FrameSkipped | ParametersWanted | CheckpointReported

_scan = json.JSONDecoder().raw_decode
_METRIC_TYPES = frozenset({"PERIODICAL", "FINAL"})
_WHITESPACE = " \t\r\n"
_LARGEST = 2**63 - 1
# Frame of a number as the libraries of NNI and nnimgr write it, read in half the time that JSON parsers need.
# Its numbers are short enough to be in range.
_USUAL = re.compile(
    r'\{"parameter_id": (null|0|[1-9]\d{0,17}), "trial_job_id": "([\w.-]+)", "type": "(PERIODICAL|FINAL)", '
    r'"sequence": (0|[1-9]\d{0,17}), '
    r'"value": "(-?(?:0|[1-9]\d{0,14})(?:\.\d{1,24})?(?:[eE][+-]?\d{1,2})?)"\}\n?',
    re.ASCII,
)


class _Skip(Exception):
    """Error: the frame is not a metric. The message says why, and is shown to the user."""


def read_frames(
    job_id: str, trial_id: str, *, position: int, payloads: Sequence[bytes], reports: int = 0
) -> list[Event]:
    """Return one event for each frame of a trial's metrics file. ``position`` is the first frame's number.

    ``reports``: number of intermediate results that earlier attempts have reported. It is added to the
    numbers of this attempt's results.
    """
    return [
        read_frame(job_id, trial_id, position=number, payload=payload, reports=reports)
        for number, payload in enumerate(payloads, position)
    ]


def read_frame(job_id: str, trial_id: str, *, position: int, payload: bytes, reports: int = 0) -> Event:
    """Return the event for one frame of a trial's metrics file, whose content is ``payload``.

    If the frame has no valid event, return FrameSkipped with a sentence that says why.
    """
    try:
        content = payload.decode()
        usual = _USUAL.fullmatch(content)
        if usual is not None and usual[2] == trial_id:
            parameter, _, kind, sequence, text = usual.groups()
            number = int(sequence) + (reports if kind == "PERIODICAL" else 0)
            parameter_id = None if parameter == "null" else parameter
            return MetricReported(job_id, position, kind, number, parameter_id, float(text), text)
        frame = _parse(content, "the frame is not JSON")
        if type(frame) is not dict:
            raise _Skip("the frame is not a JSON object")
        if frame.get("trial_job_id") != trial_id:
            raise _Skip(f"the frame's trial_job_id is {_shown(frame.get('trial_job_id'))}, not {trial_id}")
        kind = frame.get("type")
        if kind == "REQUEST_PARAMETER":
            index = _number(frame.get("parameter_index", 0), "parameter_index")
            return ParametersWanted(job_id=job_id, position=position, index=index)
        if kind == "CHECKPOINT":
            return _checkpoint(job_id, position, frame)
        if type(kind) is not str or kind not in _METRIC_TYPES:
            raise _Skip(f"the frame's type is {_shown(kind)}, neither PERIODICAL nor FINAL")
        text, value = _value(frame)
        parameter = frame.get("parameter_id")
        return MetricReported(
            job_id,
            position,
            kind,
            _number(frame.get("sequence"), "sequence") + (reports if kind == "PERIODICAL" else 0),
            None
            if parameter is None
            else str(parameter)
            if type(parameter) is int
            else json.dumps(parameter),
            value,
            text,
        )
    except _Skip as skip:
        reason = str(skip)
    except UnicodeError:
        reason = "the frame is not UTF-8"
    except RecursionError:
        reason = "the frame is nested too deeply"
    except ValueError:
        reason = "a number in the frame has too many digits"
    return FrameSkipped(
        job_id=job_id, position=position, reason=f"Frame {position} is not a metric: {reason}."
    )


def _checkpoint(job_id: str, position: int, frame: dict[str, object]) -> CheckpointReported:
    """Return the event of a frame that ``nni._checkpoint`` writes after it has saved a checkpoint."""
    step = frame.get("step")
    return CheckpointReported(
        job_id=job_id,
        position=position,
        number=_number(frame.get("sequence"), "sequence"),
        step=None if step is None else _number(step, "step"),
        size=_number(frame.get("size"), "size"),
        files=_number(frame.get("files"), "files"),
        asked=frame.get("asked") is True,
    )


def _parse(text: str, complaint: str) -> object:
    try:
        value, end = _scan(text)
    except json.JSONDecodeError:
        if text[:1] and text[0] in _WHITESPACE:
            return _parse(text.lstrip(_WHITESPACE), complaint)
        raise _Skip(complaint) from None
    if end != len(text) and text[end:].strip(_WHITESPACE):
        raise _Skip(complaint)
    return value


def _value(frame: dict[str, object]) -> tuple[str, float | None]:
    """Return the JSON text of the frame's value, and the number in the value, or None if it has none."""
    if "value" not in frame:
        raise _Skip("the frame has no value")
    text = frame["value"]
    if type(text) is str:
        value = _parse(text, "the frame's value is not JSON")
        if not text.isascii():
            text.encode()  # raises an error for half a surrogate pair, which cannot be stored
    else:
        value = text
        text = json.dumps(value)
    return text, number_in(value)


def number_in(value: object) -> float | None:
    """Return the number in the value of a metric (``default`` of a mapping); None if there is none."""
    if type(value) is dict:
        value = value.get("default")
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def _number(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise _Skip(f"the frame's {name} is {_shown(value)}, not a whole number from 0 up")
    return value


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
