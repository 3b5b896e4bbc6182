"""The contract of algorithms: its defaults, and NNI's helpers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nnimgr.algorithm import (
    Assessor,
    ClassArgsValidator,
    NoMoreTrialError,
    Recoverable,
    Tuner,
    extract_scalar_history,
    extract_scalar_reward,
)


class Three(Tuner):
    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        if parameter_id == 3:
            raise NoMoreTrialError
        return parameter_id


def test_defaults() -> None:
    tuner = Three()
    assert tuner.generate_multiple_parameters([1, 2, 3, 4]) == [1, 2]
    tuner.trial_end(1, True)
    tuner.import_data([])
    before = tuner._accept_customized
    tuner._accept_customized_trials()
    assert (before, tuner._accept_customized) == (False, True)
    for call in (
        lambda: tuner.update_search_space({}),
        lambda: tuner.receive_trial_result(0, {}, 1),
        lambda: Tuner().generate_parameters(0),
        lambda: Assessor().assess_trial("a", []),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_the_checkpoint_directory_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNI_CHECKPOINT_DIRECTORY", str(tmp_path))
    assert Recoverable().get_checkpoint_path() == str(tmp_path)
    monkeypatch.setenv("NNI_CHECKPOINT_DIRECTORY", str(tmp_path / "missing"))
    assert Recoverable().get_checkpoint_path() is None


def test_numbers_in_results() -> None:
    assert extract_scalar_reward(3) == 3
    assert extract_scalar_reward({"default": 0.5, "loss": 1}) == 0.5
    assert extract_scalar_reward({"loss": 1}, scalar_key="loss") == 1
    assert extract_scalar_history([1, {"default": 2}]) == [1, 2]
    for value in ("0.5", None, {"loss": 1}, {"default": "x"}):
        with pytest.raises(RuntimeError, match="must be a number"):
            extract_scalar_reward(value)


def test_a_validator_of_class_args(tmp_path: Path) -> None:
    class Mine(ClassArgsValidator):
        def validate_class_args(self, **kwargs: Any) -> None:
            self.choices("mode", "a", "b")(kwargs["mode"])
            self.range("depth", int, 1, 9)(kwargs["depth"])
            self.path("root")(kwargs["root"])

    good = {"mode": "a", "depth": 3, "root": str(tmp_path)}
    Mine().validate_class_args(**good)
    for bad in ({"mode": "c"}, {"depth": 10}, {"depth": 2.5}, {"root": str(tmp_path / "none")}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Mine().validate_class_args(**{**good, **bad})


def test_a_child_loads_no_library() -> None:
    code = (
        "import sys; import nnimgr.dispatcher.worker, nnimgr.tuners.random, nnimgr.assessors.medianstop; "
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {name for name in loaded.split() if not name.startswith("_")} <= {
        "nnimgr",
        "training_services",
        "sitecustomize",
    }
