"""Needs of trials that are worked out from their parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnimgr.expressions import ExpressionError, names_of
from nnimgr.needs import NeedExpression, ParameterMissing, is_expression, own_needs
from nnimgr.rules.terms import MemoryGrowth
from nnimgr.search_space import parse
from training_services.base import JobRejected, TrialJobSpec
from training_services.placement.needs import Wants

NAMES = names_of(
    parse(
        {
            "model": {"_type": "choice", "_value": ["small", "large"]},
            "layers": {"_type": "randint", "_value": [1, 9]},
            "optimizer": {
                "_type": "choice",
                "_value": [
                    {"_name": "sgd", "momentum": {"_type": "uniform", "_value": [0, 1]}},
                    {"_name": "adam"},
                ],
            },
        }
    )
)


def job(parameters: Any, *, memory_retries: int = 0) -> TrialJobSpec:
    return TrialJobSpec(
        id="exp-aaaa1-1",
        trial_id="aaaa1",
        attempt=1,
        sequence=0,
        parameter_text=json.dumps({"parameter_id": 0, "parameters": parameters}),
        memory_retries=memory_retries,
    )


@pytest.mark.parametrize(
    ("field", "text", "parameters", "value"),
    [
        ("trialGpuNumber", "{{ 2 if model == 'large' else 1 }}", {"model": "large"}, 2),
        ("trialGpuNumber", " {{2 if model == 'large' else 0.5}} ", {"model": "small"}, 0.5),
        ("trialGpuNumber", "{{ layers // 4 }}", {"layers": 3}, 0),
        ("trialCpuNumber", "{{ min(layers, 4) }}", {"layers": 9}, 4),
        ("trialMemorySize", "{{ 512 * layers }}", {"layers": 3}, 1536),
        ("trialMemorySize", "{{ 0.7 * layers }}", {"layers": 3}, 3),
        ("trialMemorySize", "{{ '8gb' if layers > 5 else '512mb' }}", {"layers": 6}, 8192),
        (
            "trialCpuNumber",
            "{{ 4 if optimizer == 'sgd' and optimizer.momentum > 0.5 else 1 }}",
            {"optimizer": {"_name": "sgd", "momentum": 0.9}},
            4,
        ),
    ],
)
def test_values(field: str, text: str, parameters: Any, value: float) -> None:
    assert is_expression(text)
    assert NeedExpression(field, text, NAMES).of(parameters) == value


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("trialGpuNumber", "{{ -layers }}", "has no valid value for layers = 3: must be at least 0, not -3"),
        ("trialGpuNumber", "{{ 1.5 }}", "must be a whole number, or a fraction below 1 of one GPU, not 1.5"),
        ("trialGpuNumber", "{{ model }}", "'large' is not a number of GPUs; write 0, 0.5 or 2"),
        ("trialGpuNumber", "{{ layers > 2 }}", "True is not a number"),
        ("trialCpuNumber", "{{ layers - 3 }}", "must be above 0, not 0"),
        ("trialCpuNumber", "{{ 1 / (layers - 3) }}", "a number is divided by zero"),
        ("trialCpuNumber", "{{ exp(1000) }}", "a number becomes too large"),
        ("trialMemorySize", "{{ model }}", "'large' is not a number with one of the units"),
        ("trialMemorySize", "{{ None }}", "None is neither a whole number nor text"),
        ("trialMemorySize", "{{ -1.5 }}", "-1 is not larger than zero"),
        ("trialMemorySize", "{{ model + 1 }}", "'large' is not a number"),
    ],
)
def test_values_that_are_not_valid(field: str, text: str, sentence: str) -> None:
    expression = NeedExpression(field, text, NAMES)
    with pytest.raises(ExpressionError) as caught:
        expression.of({"layers": 3, "model": "large"})
    assert sentence in str(caught.value)
    with pytest.raises(JobRejected, match=f"{field} has no valid value"):
        expression.of_job(job({"layers": 3, "model": "large"}))


def test_a_parameter_that_the_set_does_not_have() -> None:
    expression = NeedExpression("trialCpuNumber", "{{ 1 + optimizer.momentum }}", NAMES)
    with pytest.raises(ParameterMissing, match=r"has no optimizer\.momentum; test first with 'if'"):
        expression.of({"optimizer": {"_name": "adam"}})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{{ 2 if model }", "must end with }}"),
        ("{{ }}", "is empty"),
        ("{{ 2 if }}", "cannot be read at its end: invalid syntax"),
        ("{{ __import__('os') }}", "there is no function __import__"),
        ("{{ modle }}", "the search space has no parameter modle"),
    ],
)
def test_texts_that_are_not_valid(text: str, sentence: str) -> None:
    with pytest.raises(ExpressionError, match=sentence):
        NeedExpression("trialGpuNumber", text, NAMES)


@pytest.mark.parametrize("value", [None, 2, 0.5, "8gb", {"start": "1gb"}])
def test_plain_values_are_no_expressions(value: Any) -> None:
    assert not is_expression(value)
    assert own_needs({"trialMemorySize": value}, None) is None


def test_needs_of_jobs() -> None:
    growth = MemoryGrowth(start=1000, factor=2, limit=3000)
    own = own_needs({"trialGpuNumber": "{{ layers }}", "trialCpuNumber": 2}, growth)
    wants = Wants(None, 2, None, own)
    assert wants.of_job(job({"layers": 3})) == Wants(3, 2, 1000)
    assert [wants.of_job(job({"layers": 1}, memory_retries=n)).memory for n in range(5)] == [
        *(1000, 2000, 3000, 3000, 3000)
    ]
    assert growth.steps == 2
