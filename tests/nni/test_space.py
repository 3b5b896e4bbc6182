"""``nni.choice`` and similar functions."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import nni
from nni._space import SampleValidationError

ALL = [
    (nni.choice("x", [1, 2, 3]), "Categorical([1, 2, 3], label='x')", 1, "choice", [1, 2, 3]),
    (nni.uniform("x", 0, 1), "Numerical(0, 1, label='x')", 0.5, "uniform", [0, 1]),
    (nni.quniform("x", 0, 10, 2.5), "Numerical(0, 10, q=2.5, label='x')", 5.0, "quniform", [0, 10, 2.5]),
    (
        nni.loguniform("x", 1e-5, 1e-3),
        *("Numerical(1e-05, 0.001, log_distributed=True, label='x')", 1e-4, "loguniform", [1e-5, 1e-3]),
    ),
    (
        nni.qloguniform("x", 1e-5, 1e-3, 1e-4),
        "Numerical(1e-05, 0.001, q=0.0001, log_distributed=True, label='x')",
        *(1e-4, "qloguniform", [1e-5, 1e-3, 1e-4]),
    ),
    (nni.normal("x", 0, 1), "Numerical(-inf, inf, mu=0, sigma=1, label='x')", 0.0, "normal", [0, 1]),
    (
        nni.qnormal("x", 0.0, 1.0, 0.1),
        *("Numerical(-inf, inf, mu=0.0, sigma=1.0, q=0.1, label='x')", 0.0, "qnormal", [0.0, 1.0, 0.1]),
    ),
]


@pytest.mark.parametrize(("dimension", "shown", "default", "kind", "value"), ALL)
def test_a_dimension(dimension: Any, shown: str, default: Any, kind: str, value: list[Any]) -> None:
    assert repr(dimension) == shown
    assert math.isclose(dimension.default(), default, abs_tol=1e-12)
    assert dimension.search_space() == {"x": {"_type": kind, "_value": value}}
    assert dimension.simplify() == {"x": dimension}
    state = random.Random(1)
    for _ in range(50):
        memo: dict[str, Any] = {}
        drawn = dimension.random(memo, state)
        assert memo == {"x": drawn} and dimension.random(memo) == drawn
        assert dimension.freeze({"x": drawn, "y": 1}) == drawn
    with pytest.raises(SampleValidationError):
        dimension.freeze({"x": "no"})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: nni.uniform("x", 1, 1),
        lambda: nni.loguniform("x", 0, 1),
        lambda: nni.normal("x", 0, 0),
        lambda: nni.choice("x", []),
    ],
)
def test_what_is_no_dimension(wrong: Any) -> None:
    with pytest.raises(ValueError):
        wrong()
