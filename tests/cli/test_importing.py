"""``nnictl experiment import --from``."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.cli.selection import ending_of, newest_if_failed, select
from nnimgr.index import Index
from nnimgr.store.reader import ExperimentReader
from tests.cli.fake import FakeExperiment, FakeServer, profile

IMPORT = ["experiment", "import", "--from", "csv", "results.csv"]
CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 train.py
trialConcurrency: 1
maxTrialNumber: %s
goal: minimize
tuner: {name: TPE}
trainingService: {platform: local}
"""


@pytest.fixture(autouse=True)
def table(server: FakeServer) -> None:
    Path("results.csv").write_text("x,reward\n0.5,0.9\n0.25,\n")


def test_a_source_becomes_a_stopped_experiment(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*IMPORT, "--json"]) == 0
    printed = capsys.readouterr()
    made = json.loads(printed.out)
    entry = Index(server.home).entries()[made["id"]]
    assert (entry.status, made["trials"], str(entry.directory)) == ("STOPPED", 2, made["directory"])
    assert "Larger ones count as better." in printed.err
    assert server.requests == []
    assert ending_of(entry).startswith("STOPPED: its 2 trials were imported from ")
    assert newest_if_failed([entry]) is None  # it is not the last experiment that has finished or failed
    assert select(server.home, None).id == entry.id
    assert main(["resume"]) == 1
    server.add("able", status="STOPPED")
    assert main(["resume"]) == 1
    told = capsys.readouterr().err
    assert told.count("Name one, for example the latest: nnictl resume") == 1
    assert "Name one, for example the latest that can run trials: nnictl resume able" in told
    assert main([*IMPORT, "--metric", "reward", "--goal", "minimize"]) == 0
    printed = capsys.readouterr()
    assert f"nnictl {' '.join(IMPORT)} --metric reward --config FILE" in printed.out and not printed.err


def test_a_suggestion_keeps_the_source(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    for experiment_id in ("abc1", "abc2"):
        server.add(experiment_id)
    assert main([*IMPORT, "--to", "abc"]) == 1
    assert f"Name one of them by its id: nnictl {' '.join(IMPORT)} --to abc2\n" in capsys.readouterr().err


def test_several_numbers_need_a_name(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    Path("several.csv").write_text("parameters.x,trialJobId,accuracy,latency\n0.5,a,0.9,40\n0.25,b,0.8,30\n")
    words = ["experiment", "import", "--from", "csv", "several.csv"]
    assert main(words) == 1
    assert capsys.readouterr().err == (
        "ERROR: The trials in the file several.csv have reported accuracy, latency, and nothing says what is "
        "to be optimized.\n  Name it: nnictl experiment import --from csv several.csv --metric accuracy\n"
    )
    assert main([*words, "--metric", "accuracy"]) == 0


@pytest.mark.parametrize("words", [["resume", "{id}"], ["update", "trialnum", "{id}", "--value", "8"]])
def test_without_a_configuration_it_cannot_be_continued(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main([*IMPORT, "--json"]) == 0
    experiment_id = json.loads(capsys.readouterr().out)["id"]
    server.experiments[experiment_id] = FakeExperiment(profile(experiment_id, status="STOPPED"))
    Index(server.home).update(experiment_id, port=server.port)
    assert main([word.format(id=experiment_id) for word in words]) == 1
    assert capsys.readouterr().err == (
        f"ERROR: Experiment {experiment_id} was imported without a trial command, so it cannot run trials.\n"
        "  Import it again with a configuration: nnictl experiment import --from KIND SOURCE --config FILE\n"
        f"  Or see its trials: nnictl view {experiment_id}\n"
    )
    assert all(method == "GET" for method, _, _ in server.requests)


def test_with_a_configuration_it_can_be_continued(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("exp.yml").write_text(CONFIG % 9)
    Path("train.py").touch()
    assert main([*IMPORT, "--config", "exp.yml"]) == 0
    printed = capsys.readouterr()
    assert (
        "with 2 trials from the file results.csv." in printed.out
        and "Continue it: nnictl resume" in printed.out
    )
    assert printed.err == ""
    Path("exp.yml").write_text(CONFIG % 2)
    assert main([*IMPORT, "--config", "exp.yml"]) == 0
    assert "maxTrialNumber (2) is used up, because imported trials count." in capsys.readouterr().err
    Path("results.csv").write_text("x,reward\n0.5,0.9\n3,0.4\n")
    assert main([*IMPORT, "--config", "exp.yml"]) == 0
    told = "WARNING: Line 3 of the file results.csv does not fit the search space: x is 3, outside uniform"
    assert told in capsys.readouterr().err
    Path("results.csv").write_text("x,reward\n0.5,0.9\nlow,0.4\n")
    before = Index(server.home).entries()
    assert main([*IMPORT, "--config", "exp.yml"]) == 1
    told = "ERROR: Line 3 of the file results.csv: parameter x must be a number, not 'low': "
    assert told in capsys.readouterr().err
    Path("results.csv").write_text("y,reward\n0.5,0.9\n")
    assert main([*IMPORT, "--config", "exp.yml"]) == 1
    told = (
        "results.csv, line 1: there is no column 'x' for this parameter of the search space or of "
        "--parameters; the columns are y, reward."
    )
    assert told in capsys.readouterr().err
    assert Index(server.home).entries() == before


def test_a_running_tuner_gets_the_results(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", config={"tuner": {"name": "TPE"}}, searchSpace={"x": {}})
    assert main([*IMPORT, "--to", "abc", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1
    records = [{"parameter": {"x": 0.5}, "value": 0.9}]
    assert ("POST", "experiments/abc/import", {"records": records}) in server.requests
    # In an export, a result that is one number is that of the only objective.
    config = {"tuner": {"name": "TPE"}, "objectives": {"loss": "minimize"}}
    server.add("named", config=config, searchSpace={"x": {}})
    Path("results.csv").write_text("x,trialJobId,reward\n0.5,t1,0.9\n")
    assert main([*IMPORT, "--to", "named"]) == 0
    assert ("POST", "experiments/named/import", {"records": records}) in server.requests
    assert main([*IMPORT, "--to", "named", "--metric", "loss"]) == 1
    assert "there is no column 'loss'" in capsys.readouterr().err


def test_results_that_no_tuner_can_use_are_named(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc", config={"tuner": {"name": "TPE"}}, searchSpace={"x": {}})
    Path("results.csv").write_text("id,status,x,reward\na,SUCCEEDED,0.5,0.9\nb,SUCCEEDED,0.5,inf\n")
    assert main([*IMPORT, "--to", "abc"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "INFO: Import data success! 1 result was given to the tuner.\n"
    assert printed.err == "WARNING: Left out, because the result is missing or not finite: trial b.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--from", "csv"], "The source is missing: a file, a folder or a URL."),
        (["--from", "csv", "none.csv"], "none.csv cannot be read: No such file or directory."),
        (
            ["--from", "csv", "results.csv", "--metric", "loss"],
            "there is no column 'loss'; the columns are x, reward.",
        ),
        (
            ["--from", "csv", "results.csv", "--to", "abc", "--goal", "minimize"],
            "--goal is for a new experiment",
        ),
        (["--filename", "results.json", "--to", "abc"], "--to goes with --from, not with --filename."),
    ],
)
def test_what_cannot_be_imported(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["experiment", "import", *words]) == 1
    assert told in capsys.readouterr().err
    assert server.requests == [] and Index(server.home).entries() == {}


def test_a_study_with_the_other_goal_is_refused(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optuna = pytest.importorskip("optuna", reason="Optuna's storages are read with Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage="sqlite:///study.db", direction="maximize")
    study.optimize(lambda trial: float(trial.suggest_float("x", 0, 1)), n_trials=1)
    Path("exp.yml").write_text(CONFIG % 9)
    Path("train.py").touch()
    command = ["experiment", "import", "--from", "optuna", "study.db"]
    assert main([*command, "--config", "exp.yml"]) == 1
    told = "The goal is minimize in the configuration, and maximize in the Optuna study"
    assert told in capsys.readouterr().err
    assert main([*command, "--goal", "minimize"]) == 1
    printed = capsys.readouterr().err
    assert "states maximize, and --goal states minimize; nothing is imported.\n  Leave --goal out" in printed
    server.add("abc", config={"tuner": {"name": "TPE"}, "goal": "minimize"}, searchSpace={"x": {}})
    assert main([*command, "--to", "abc"]) == 1
    printed = capsys.readouterr().err
    assert told in printed and "Correct the goal in experiment abc, then repeat: nnictl" in printed
    assert all(method == "GET" for method, _, _ in server.requests)


def test_a_trial_that_had_not_ended_gets_what_it_lacks(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    space = "{x: {_type: uniform, _value: [0, 1]}, y: {_type: randint, _value: [3, 4]}}"
    Path("exp.yml").write_text(f"searchSpace: {space}\n{(CONFIG % 9).partition(chr(10))[2]}")
    Path("train.py").touch()
    Path("results.csv").write_text("x,y,reward,status\n0.5,3,0.9,SUCCEEDED\n0.25,,,WAITING\n")
    assert main([*IMPORT, "--config", "exp.yml", "--json"]) == 0
    printed = capsys.readouterr()
    assert "does not fit" not in printed.err
    entry = Index(server.home).entries()[json.loads(printed.out)["id"]]
    with closing(ExperimentReader(entry.directory)) as reader:
        _, trials = reader.trials()
    assert [json.loads(trial.parameters) for trial in trials] == [{"x": 0.5, "y": 3}, {"y": 3, "x": 0.25}]
