"""Readers of sources: each trial once, with its state, values and times. Errors name the place."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnimgr.analysis.flatten import flatten
from nnimgr.importing.sources import read_source
from nnimgr.importing.spaces import options_at, space_of
from nnimgr.importing.trials import SourceError, Wanted
from nnimgr.rules.terms import TrialStatus

S = TrialStatus


def csv_file(folder: Path, text: str) -> str:
    (folder / "results.csv").write_text(text)
    return str(folder / "results.csv")


def test_a_table_of_trials(tmp_path: Path) -> None:
    source = csv_file(
        tmp_path,
        "x,layers,act,reward,status,started,ended,intermediate\n"
        '0.5,3,relu,0.9,SUCCEEDED,2026-01-01T00:00:00+00:00,2026-01-01T00:01:00+00:00,"[0.1, 0.9]"\n'
        "0.1,2,,,FAILED,,,\n"
        "0.2,1,tanh,,RUNNING,,,\n",
    )
    first, second, third = read_source("csv", source, Wanted()).trials
    assert first.parameters == {"x": 0.5, "layers": 3, "act": "relu"}
    assert (first.status, first.final, [value for value, _ in first.reports]) == (
        S.SUCCEEDED,
        0.9,
        [0.1, 0.9],
    )
    assert (first.started, first.ended) == (
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 0, 1, tzinfo=UTC),
    )
    assert (second.status, second.final, second.parameters) == (S.FAILED, None, {"x": 0.1, "layers": 2})
    assert (third.status, third.rerun) == (S.SYS_CANCELED, True)


def test_a_table_with_prefixes_has_its_parameters_and_metrics_by_name(tmp_path: Path) -> None:
    source = csv_file(tmp_path, "id,status,value,parameters.x,metrics.ms\na1,SUCCEEDED,1,2,3\n")
    (trial,) = read_source("csv", source, Wanted(metrics=("value", "ms"))).trials
    assert (trial.name, trial.parameters, trial.final) == ("a1", {"x": 2}, {"value": 1, "ms": 3})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no trials: line 1 must name the columns"),
        ("x,reward\n", "has no trials"),
        ("x,y\n1,2\n", "line 1: there is no column 'reward' or 'value' or 'default'"),
        ("reward\n2\n", "line 1: there is no column of a parameter; the columns are reward"),
        ("x,reward\n1,2\n1\n", "line 3: it has 1 cells, but line 1 names 2 columns"),
        ("x,reward\n1,2\n1,high\n", "line 3: 'reward' is 'high'; it must be a number"),
        ("x,x,reward\n1,2,3\n", "line 1: there are two columns 'x'"),
        ("x,reward,status\n1,2,GOOD\n", "line 2: 'status' is 'GOOD'; valid are WAITING, RUNNING, "),
        ("x,reward,ended\n1,2,soon\n", "line 2: 'ended' is 'soon'; it must be a time such as "),
        ("x,reward,intermediate\n1,2,3\n", "line 2: 'intermediate' is '3'; it must be a list such as"),
        ('x,reward\n"1,2\n', "it is not CSV"),
    ],
)
def test_an_error_in_a_table_names_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(SourceError) as error:
        read_source("csv", csv_file(tmp_path, text), Wanted())
    assert told in str(error.value)


def test_results_that_nni_has_exported(tmp_path: Path) -> None:
    records = [
        {"parameter": {"x": 1}, "value": "0.5", "trialJobId": "abcde", "intermediate": ["0.1", "0.5"]},
        {"parameter": {"x": 2}, "value": '{"default": 1, "ms": 7}', "trialJobId": "fghij"},
    ]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(records))
    first, second = read_source("nni", str(file), Wanted()).trials
    assert (first.name, first.final, [value for value, _ in first.reports]) == ("abcde", 0.5, [0.1])
    assert second.final == {"default": 1, "ms": 7}
    first, second = read_source("nni", str(file), Wanted(metrics=("ms",))).trials
    assert (first.final, second.final) == (0.5, 7)
    with pytest.raises(SourceError, match="has the number 'sm'; they have default, ms"):
        read_source("nni", str(file), Wanted(metrics=("sm",)))
    file.write_text(json.dumps([*records, {"parameter": 1, "value": 2}]))
    with pytest.raises(SourceError, match="the result number 3 of 3 has a 'parameter' that is not an object"):
        read_source("nni", str(file), Wanted())
    with pytest.raises(SourceError, match="is a folder"):
        read_source("nni", str(tmp_path), Wanted())


def test_runs_of_wandb(tmp_path: Path) -> None:
    files = tmp_path / "offline-run-2026-a1" / "files"
    files.mkdir(parents=True)
    (files / "config.yaml").write_text("lr:\n  value: 0.1\n_wandb:\n  value: {}\nwandb_version: 1\n")
    (files / "wandb-summary.json").write_text(
        '{"loss": 0.5, "_timestamp": 1010.0, "_runtime": 10, "_step": 3}'
    )
    (trial,) = read_source("wandb", str(tmp_path), Wanted()).trials
    assert (trial.name, trial.parameters, trial.final) == ("offline-run-2026-a1", {"lr": 0.1}, 0.5)
    assert (trial.started, trial.ended) == (
        datetime.fromtimestamp(1000, UTC),
        datetime.fromtimestamp(1010, UTC),
    )
    table = csv_file(
        tmp_path,
        "Name,State,Created,Runtime,lr,loss\n"
        "run-1,finished,2026-01-01T00:00:00.000Z,60,0.1,0.5\n"
        "run-2,crashed,2026-01-01T00:00:00.000Z,6,0.2,\n",
    )
    with pytest.raises(SourceError, match="does not say which columns are parameters"):
        read_source("wandb", table, Wanted(metrics=("loss",)))
    good, bad = read_source("wandb", table, Wanted(metrics=("loss",), parameters=("lr",))).trials
    assert (good.status, good.final, good.parameters) == (S.SUCCEEDED, 0.5, {"lr": 0.1})
    assert good.ended == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert (bad.status, bad.final) == (S.FAILED, None)


def test_a_run_that_wandb_has_written(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="runs of W&B are read with W&B")
    settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
    where: dict[str, Any] = {"mode": "offline", "dir": str(tmp_path), "settings": settings}
    with wandb.init(config={"lr": 0.1, "net": {"depth": 2}}, name="one", **where) as run:
        for step in range(3):
            run.log({"loss": 1 / (step + 1), "other": step})
    wandb.init(config={"lr": 0.2}, name="two", **where).finish(exit_code=3)
    wandb.teardown()
    first, second = read_source("wandb", str(tmp_path / "wandb"), Wanted(metrics=("loss",))).trials
    assert (first.name, first.parameters, first.status) == (
        "one",
        {"lr": 0.1, "net": {"depth": 2}},
        S.SUCCEEDED,
    )
    assert (first.final, [value for value, _ in first.reports]) == (1 / 3, [1.0, 0.5, 1 / 3])
    assert first.started is not None and first.ended is not None
    assert (second.status, second.reason) == (S.FAILED, "it exited with code 3 in W&B")


def test_a_search_space_contains_all_parameter_sets() -> None:
    sets = [
        {"n": 1, "x": 0.5, "lr": 1e-5, "c": "a", "same": 3, "l": [1]},
        {"n": 4, "x": 0.7, "lr": 0.1, "c": "b", "same": 3, "l": [2]},
    ]
    assert space_of(sets) == {
        "n": {"_type": "randint", "_value": [1, 5]},
        "x": {"_type": "uniform", "_value": [0.5, 0.7]},
        "lr": {"_type": "loguniform", "_value": [1e-5, 0.1]},
        "c": {"_type": "choice", "_value": ["a", "b"]},
        "same": {"_type": "choice", "_value": [3]},
        "l": {"_type": "choice", "_value": [[1], [2]]},
    }


NESTED = [
    {"lr": 0.1, "net": {"_name": "conv", "width": 3, "act": {"_name": "elu", "alpha": 0.5}}},
    {"lr": 0.2, "net": {"_name": "none"}, "note": "=1+1"},
]


def test_results_that_are_no_numbers_are_kept_as_they_were_exported(tmp_path: Path) -> None:
    source = csv_file(
        tmp_path,
        "lr,loss,trialJobId,metrics.loss,ms,reward,intermediate\n"
        '0.1,5,a,1.5,2,,"[3.0, {""ms"": 1}]"\n'
        "0.2,6,b,1.5,,,[]\n"
        "0.3,7,c,,,good,[]\n"
        "0.4,8,d,,,,[null]\n",
    )
    trials = read_source("csv", source, Wanted()).trials
    assert [trial.final for trial in trials] == [{"loss": 1.5, "ms": 2}, {"loss": 1.5}, "good", None]
    assert [trial.parameters for trial in trials][:2] == [{"lr": 0.1, "loss": 5}, {"lr": 0.2, "loss": 6}]
    assert [value for value, _ in trials[0].reports] == [3.0, {"ms": 1}]
    found = read_source("csv", source, Wanted(metrics=("loss", "ms"), parameters=("lr", "loss"))).trials
    assert [trial.final for trial in found][:2] == [{"loss": 1.5, "ms": 2}, {"loss": 1.5}]


def test_the_columns_of_nnis_tables_are_in_any_order(tmp_path: Path) -> None:
    for text in (
        "x,trialJobId,reward,status\n1,a,0.5,3\n",
        "reward,x,status,trialJobId\n0.5,1,3,a\n",
        "trialJobId,status,reward,x,intermediate\na,3,0.5,1,[0.5]\n",
    ):
        (trial,) = read_source("csv", csv_file(tmp_path, text), Wanted()).trials
        assert (trial.parameters, trial.final, trial.name) == ({"x": 1, "status": 3}, 0.5, "a")
    source = csv_file(tmp_path, "default,x,trialJobId\n0.5,1,a\n")
    assert read_source("csv", source, Wanted()).trials[0].final == 0.5
    source = csv_file(tmp_path, "reward,trialJobId,metrics.reward\n7,a,0.5\n")
    (trial,) = read_source("csv", source, Wanted()).trials
    assert (trial.parameters, trial.final) == ({"reward": 7}, 0.5)


def test_nnis_tables_with_results_in_parts_need_the_names_of_the_parameters(tmp_path: Path) -> None:
    text = (
        "tag,lr,trialJobId,c,default,n,opt,acc\n"
        """a,0.1,gZQPv,False,0.5,2,"{'_name': 'sgd', 'mom': 0.59}",0.7\n"""
        "b,0.2,yrfla,,0.4,7,{'_name': 'none'},0.8\n"
    )
    source = csv_file(tmp_path, text)
    with pytest.raises(SourceError, match="in any order, so it is not known which are parameters") as caught:
        read_source("nni", source, Wanted())
    assert "--parameters x,y or --config FILE" in str(caught.value.hint)
    space = {"c": {"_type": "choice", "_value": [True, False, None]}}
    first, second = read_source("nni", source, Wanted(parameters=("lr", "n", "c", "opt"), space=space)).trials
    assert first.parameters == {"lr": 0.1, "n": 2, "c": False, "opt": {"_name": "sgd", "mom": 0.59}}
    assert second.parameters == {"lr": 0.2, "n": 7, "c": None, "opt": {"_name": "none"}}
    assert first.final == {"tag": "a", "default": 0.5, "acc": 0.7}
    named = Wanted(metrics=("acc", "default"), parameters=("lr", "n"))
    assert read_source("nni", source, named).trials[0].final == {"acc": 0.7, "default": 0.5}
    reward = csv_file(tmp_path, "opt,reward,trialJobId,n\n\"['a', None]\",0.5,gZQPv,{1\n")
    (trial,) = read_source("nni", reward, Wanted()).trials
    assert (trial.parameters, trial.final) == ({"opt": ["a", None], "n": "{1"}, 0.5)


def test_only_tables_of_nnimgr_have_its_further_columns(tmp_path: Path) -> None:
    source = csv_file(tmp_path, "lr,source,duration,tags,value\n0.1,web,5,q,0.5\n")
    (trial,) = read_source("csv", source, Wanted()).trials
    assert trial.parameters == {"lr": 0.1, "source": "web", "duration": 5, "tags": "q"}


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(parameters=("lr", "net"))])
def test_a_download_of_the_dashboard_has_nested_parameters(tmp_path: Path, wanted: Wanted) -> None:
    rows = [
        {
            "id": f"t{at}",
            "sequence": at,
            "status": "SUCCEEDED",
            "attempt": 1,
            "value": value,
            "reason": "done",
            **{f"parameters.{name}": each for name, each in flatten(parameters)},
        }
        for at, (parameters, value) in enumerate(zip(NESTED, (1.5, "good"), strict=True))
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows([{name: _harmless(row.get(name)) for name in names} for row in rows])
    (tmp_path / "trials.json").write_text(
        json.dumps({"total": 2, "trials": [{name: row.get(name) for name in names} for row in rows]})
    )
    named = wanted.parameters or ("lr", "net", "note")
    expected = [{name: each[name] for name in named if name in each} for each in NESTED]
    for kind, source in (
        ("csv", csv_file(tmp_path, text.getvalue())),
        ("nni", str(tmp_path / "trials.json")),
    ):
        trials = read_source(kind, source, wanted).trials
        assert [trial.parameters for trial in trials] == expected
        assert [(trial.name, trial.final) for trial in trials] == [("t0", 1.5), ("t1", "good")]


def _harmless(value: object) -> object:
    return f"'{value}" if str(value).startswith("=") else value


def test_the_dashboards_value_is_that_of_the_main_objective(tmp_path: Path) -> None:
    source = csv_file(
        tmp_path,
        "id,sequence,status,attempt,value,parameters.value,metrics.ms\n"
        "a,0,SUCCEEDED,1,0.5,7,3\n"
        "b,1,SUCCEEDED,1,,8,\n",
    )
    trials = read_source("csv", source, Wanted(metrics=("loss", "ms"))).trials
    assert [trial.final for trial in trials] == [{"loss": 0.5, "ms": 3}, None]
    assert [trial.parameters for trial in trials] == [{"value": 7}, {"value": 8}]


def test_the_search_space_says_which_values_are_texts(tmp_path: Path) -> None:
    source = csv_file(
        tmp_path,
        "a,b,status,duration,trialJobId,reward,intermediate\n"
        '1,,RUNNING,5,t0,0.5,"[0.5, NaN, 0.5]"\n'
        "true,x,,6,t1,NaN,[NaN]\n",
    )
    nested = {"_name": "a", "k": {"_type": "choice", "_value": ["2", 3]}}
    space = {
        "a": {"_type": "choice", "_value": ["1", True]},
        "b": {"_type": "choice", "_value": ["", "x"]},
        "status": {"_type": "choice", "_value": ["RUNNING", None]},
        "net": {"_type": "choice", "_value": [nested, {"_name": "none"}]},
    }
    trials = read_source("csv", source, Wanted(parameters=("a", "b", "status"), space=space)).trials
    assert [trial.parameters for trial in trials] == [
        {"a": "1", "b": "", "status": "RUNNING"},
        {"a": True, "b": "x", "status": None},
    ]
    assert [trial.status for trial in trials] == [S.SUCCEEDED, S.SUCCEEDED]
    assert next(value for value, _ in trials[0].reports) == 0.5 and len(trials[0].reports) == 2
    assert trials[1].reports == []
    assert options_at(space, ("net", "k")) == ["2", 3] and options_at(space, ("other",)) == []


def test_the_table_of_the_sink_has_its_results_as_json(tmp_path: Path) -> None:
    source = csv_file(
        tmp_path,
        "number,id,status,value,created,started,ended,reason,result,parameters.x\n"
        '0,a,SUCCEEDED,0.5,,,,done,"{""loss"": 0.5, ""ms"": 3}",1\n'
        "1,b,SUCCEEDED,,,,,done,NaN,2\n"
        '2,c,SUCCEEDED,,,,,done,"""good""",2\n'
        "3,d,FAILED,,,,,bad,,3\n",
    )
    whole = [trial.final for trial in read_source("csv", source, Wanted(metrics=("loss", "ms"))).trials]
    assert (whole[0], math.isnan(whole[1]), *whole[2:]) == ({"loss": 0.5, "ms": 3}, True, "good", None)
    trials = read_source("csv", source, Wanted(metrics=("loss",))).trials
    assert (trials[0].final, trials[0].parameters, trials[3].reason) == (0.5, {"x": 1}, "bad")


def test_runs_that_confirm_trials_are_no_results_of_the_search(tmp_path: Path) -> None:
    source = csv_file(
        tmp_path,
        "id,sequence,status,source,attempt,value,parameters.x\n"
        "a,0,SUCCEEDED,algorithm,1,0.5,7\n"
        "b,1,SUCCEEDED,confirmation,1,0.9,7\n",
    )
    assert [trial.name for trial in read_source("csv", source, Wanted()).trials] == ["a"]


def test_a_download_without_trials_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "trials.json"
    for trials in ([], [1]):
        file.write_text(json.dumps({"total": 0, "trials": trials}))
        with pytest.raises(SourceError, match="must have an object for each trial under 'trials'"):
            read_source("nni", str(file), Wanted())
