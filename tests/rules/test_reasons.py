"""Reasons of trials that have ended: what the shell could not run, and results that cannot be used."""

from __future__ import annotations

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.trial_ends import fault_of_result
from tests.rules.driver import Life

S = f.TrialStatus


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (
            127,
            "/bin/bash: line 1: ./nox: No such file or directory",
            "command not found: ./nox (exit code 127)",
        ),
        (126, "sh: 1: ./nox: Permission denied", "command cannot be executed: ./nox (exit code 126)"),
        (
            *(126, "/bin/bash: line 1: ./nox: cannot execute: required file not found"),
            "command cannot be executed: ./nox (exit code 126)",
        ),
    ],
)
def test_what_the_shell_could_not_run_is_named(code: int, said: str, reason: str) -> None:
    life = Life()
    life.start(0)
    life.end(0, code, message=said)
    assert life.ended()[life.trial(0)] == (S.FAILED, reason)


@pytest.mark.parametrize(
    ("command", "text", "reason"),
    [
        (
            "true",
            '{"__ndarray__": [1.0, 2.0], "dtype": "float64"}',
            "no usable result: a value of type ndarray is not a number; "
            "pass a float to nni.report_final_result()",
        ),
        (
            "python3 -m nni.run train.py:train",
            '"good"',
            'no usable result: "good" is not a number; return a number from the function',
        ),
        ("true", "NaN", "no usable result: the result is NaN, so the tuner treats the trial as failed"),
        (
            *("true", "1" + 400 * "0"),
            f"no usable result: the result is 1{59 * '0'}..., which is too large, so the tuner treats the "
            "trial as failed",
        ),
        (
            "true",
            '{"default": -Infinity}',
            'no usable result: the result is {"default": -Infinity}, so the tuner treats the trial as failed',
        ),
        (
            "true",
            '{"loss": 0.2}',
            'no usable result: {"loss": 0.2} has no number under the key "default"; '
            'report {"default": 0.2}, or the number alone',
        ),
        (
            "python3 -m nni.run train.py:train",
            '{"epochs": [3], "loss": 0.2, "size": 7}',
            'no usable result: {"epochs": [3], "loss": 0.2, "size": 7} is not a number. Name the metric to '
            'optimize: maximize="loss" in Python, objectives: {loss: maximize} in exp.yml',
        ),
        (
            "python3 -m nni.run train.py:train",
            None,
            "no result: the trial has returned and reported nothing; return a number from the function",
        ),
    ],
)
def test_a_result_that_cannot_be_used(command: str, text: str | None, reason: str) -> None:
    life = Life()
    life.state.config["trialCommand"] = command
    trial = life.state.trials[life.trial(0)]
    trial.final_text = text
    assert fault_of_result(life.state, trial) == reason
