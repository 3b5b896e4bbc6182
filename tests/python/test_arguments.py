"""Unknown keyword arguments of the Python API are refused with the argument that was probably meant."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nnimgr


@pytest.mark.parametrize(
    ("call", "given", "sentence"),
    [
        (nnimgr.tune, "n_trials", "tune() has no argument 'n_trials'; did you mean trials?"),
        (nnimgr.tune, "n_jobs", "tune() has no argument 'n_jobs'; did you mean at_once?"),
        (nnimgr.tune, "schedular", "tune() has no argument 'schedular'; did you mean scheduler?"),
        (nnimgr.tune, "zzz", "tune() has no argument 'zzz'"),
        (
            nnimgr.Experiment,
            "num_samples",
            "Experiment() has no argument 'num_samples'; did you mean trials?",
        ),
        (nnimgr.Experiment, "port", "Experiment() has no argument 'port'; give server to its method start()"),
        (nnimgr.Run.update, "atonce", "Run.update() has no argument 'atonce'; did you mean at_once?"),
        (nnimgr.Run.wait, "time_out", "Run.wait() has no argument 'time_out'; did you mean timeout?"),
        (nnimgr.Study, "direction", "Study() has no argument 'direction'; did you mean maximize?"),
    ],
)
def test_an_unknown_argument(call: Any, given: str, sentence: str) -> None:
    with pytest.raises(TypeError) as refused:
        call(**{given: 1})
    assert str(refused.value) == sentence


def test_the_signature_stays() -> None:
    assert list(inspect.signature(nnimgr.tune).parameters)[:3] == ["trial", "space", "maximize"]
