"""The reader of Optuna's studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnimgr.importing.sources import read_source
from nnimgr.importing.trials import SourceError, Wanted
from nnimgr.rules.terms import TrialStatus
from nnimgr.search_space import contains, parse

S = TrialStatus


def test_a_study_of_optuna(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna's storages are read with Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(study_name="s", storage=url, direction="maximize")

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0.001, 1, log=True)
        n = trial.suggest_int("n", 1, 8)
        trial.suggest_categorical("c", ["a", "b"])
        trial.report(x, 0)
        trial.report(x + n, 1)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError("bad")
        return float(x + n)

    study.optimize(objective, n_trials=3, catch=(ValueError,))
    running = study.ask()
    found = read_source("optuna", url, Wanted())
    assert (found.title, found.directions) == ("the Optuna study 's'", {"": "maximize"})
    assert found.space == {
        "x": {"_type": "loguniform", "_value": [0.001, 1]},
        "n": {"_type": "randint", "_value": [1, 9]},
        "c": {"_type": "choice", "_value": ["a", "b"]},
    }
    statuses = [trial.status for trial in found.trials]
    assert statuses == [S.SUCCEEDED, S.EARLY_STOPPED, S.FAILED, S.SYS_CANCELED] and running.number == 3
    for theirs, ours in zip(study.get_trials(), found.trials, strict=True):
        assert ours.parameters == theirs.params
        assert [value for value, _ in ours.reports] == list(theirs.intermediate_values.values())
    first = study.get_trials()[0]
    assert found.trials[0].final == first.value
    assert found.trials[0].started == first.datetime_start.astimezone()
    assert found.trials[0].ended == first.datetime_complete.astimezone()
    optuna.create_study(study_name="t", storage=url)
    with pytest.raises(SourceError, match="has 2 studies; there are s, t"):
        read_source("optuna", str(tmp_path / "study.db"), Wanted())
    assert len(read_source("optuna", str(tmp_path / "study.db"), Wanted(study="s")).trials) == 4
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read_source("optuna", f"sqlite:///{tmp_path / 'none.db'}", Wanted())
    assert not (tmp_path / "none.db").exists()


def test_a_study_with_several_values(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna's storages are read with Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(storage=url, directions=["maximize", "minimize"])
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 3.0), n_trials=1)
    found = read_source("optuna", url, Wanted())
    assert found.directions == {"value_0": "maximize", "value_1": "minimize"}
    assert found.trials[0].final == {"value_0": study.trials[0].values[0], "value_1": 3.0}
    named = read_source("optuna", url, Wanted(metrics=("accuracy", "ms")))
    assert list(named.directions) == ["accuracy", "ms"]
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.set_metric_names(["accuracy", "ms"])
    swapped = read_source("optuna", url, Wanted(metrics=("ms", "accuracy")))
    assert swapped.directions == {"accuracy": "maximize", "ms": "minimize"}
    assert swapped.trials[0].final["ms"] == 3.0
    with pytest.raises(SourceError, match="are named accuracy, ms, and not accuracy, time"):
        read_source("optuna", url, Wanted(metrics=("accuracy", "time")))


def named_constraint(trial: Any) -> float:
    x = 0.25 + trial.number / 2
    trial.set_constraint("x", x - 0.5)
    return float(x)


def test_a_study_with_constraints_and_changed_distributions(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna's storages are read with Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(storage=url, sampler=sampler)

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1 + trial.number)
        trial.suggest_float("step", 0.05, 0.95, step=0.3)
        trial.suggest_int("n", 1, 8, log=True)
        trial.suggest_int("m", 0, 8, step=2 if trial.number else 4)
        return float(x)

    study.optimize(objective, n_trials=3)
    study.enqueue_trial({"x": 0.5})
    found = read_source("optuna", url, Wanted())
    assert found.space == {
        "x": {"_type": "uniform", "_value": [0, 3]},
        "step": {"_type": "choice", "_value": [0.05, 0.35, 0.65, 0.95]},
        "n": {"_type": "qloguniform", "_value": [1, 8, 1]},
        "m": {"_type": "randint", "_value": [0, 9]},
    }
    space = parse(found.space)
    assert not [reason for trial in found.trials[:3] for reason in contains(space, trial.parameters)]
    assert (found.trials[3].parameters, found.trials[3].rerun) == ({"x": 0.5}, True)
    optuna.delete_study(study_name=study.study_name, storage=url)
    with pytest.warns(FutureWarning):
        sampler = optuna.samplers.TPESampler(constraints_func=lambda trial: (trial.params["x"] - 0.5,))
    study = optuna.create_study(storage=url, sampler=sampler)
    for x in (0.25, 0.75):
        study.enqueue_trial({"x": x})
    study.optimize(lambda trial: float(trial.suggest_float("x", 0, 1)), n_trials=2)
    optuna.create_study(storage=url, study_name="named").optimize(named_constraint, n_trials=2)
    for name in (study.study_name, "named"):
        good, bad = read_source("optuna", url, Wanted(study=name)).trials
        assert (good.status, good.final) == (S.SUCCEEDED, 0.25)
        assert (bad.status, bad.final) == (S.SUCCEEDED, None)
        assert bad.reason == "it violates the study's constraints; its result was 0.75"
