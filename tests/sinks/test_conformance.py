"""The built-in sinks keep the contract of sinks: no event is lost, none is written twice, rollbacks count."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nnimgr.importing.wandb_files import read_run
from nnimgr.sink import Sink
from nnimgr.sinks.csv_files import CsvSink
from nnimgr.sinks.json_lines import JsonLinesSink
from nnimgr.sinks.mlflow_runs import MlflowSink
from nnimgr.sinks.tensorboard_files import TensorBoardSink
from nnimgr.sinks.wandb_runs import WandbSink
from nnimgr.testing import SinkConformance
from nnimgr.testing.sinks import story

# trial -> its steps and values after all rollbacks
CURVES = {
    0: {0: 0.0, 1: 0.1, 2: 100.2, 3: 100.3, 4: 100.4},
    1: {0: 51.0},
    2: {0: 2.0, 1: 2.1, 2: 2.2},
    3: {0: 3.0, 1: 3.1},
}


class TestCsv(SinkConformance):
    def make(self, folder: Path) -> Sink:
        return CsvSink(str(folder / "there"))

    def contents(self, folder: Path) -> Any:
        found = {name: (folder / "there" / name).read_text() for name in ("trials.csv", "metrics.csv")}
        rows = list(csv.DictReader(found["metrics.csv"].splitlines()))
        curves: dict[int, dict[int, float]] = defaultdict(dict)
        for row in rows:
            curves[int(row["trial"])][int(row["step"])] = float(row["value"])
        assert curves == CURVES and len(rows) == sum(map(len, CURVES.values()))
        trials = list(csv.DictReader(found["trials.csv"].splitlines()))
        assert [(row["number"], row["status"], row["value"]) for row in trials] == [
            ("0", "SUCCEEDED", "0.5"),
            ("1", "SUCCEEDED", "0.7"),
            ("2", "EARLY_STOPPED", ""),
            ("3", "FAILED", ""),
        ]
        assert [row["parameters.x"] for row in trials] == ["0.0", "0.9", "0.5", "0.75"]
        assert [row["parameters.only here"] for row in trials] == ["[0]", "", "[2]", "[3]"]
        return sorted(found["metrics.csv"].splitlines()), found["trials.csv"]


class TestJsonLines(SinkConformance):
    def make(self, folder: Path) -> Sink:
        return JsonLinesSink(str(folder))

    def contents(self, folder: Path) -> Any:
        lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        assert [line["number"] for line in lines] == [event.number for event in story()]
        return lines


class TestTensorBoard(SinkConformance):
    kills = tuple(range(20, 12_000, 601))

    @pytest.fixture(autouse=True)
    def tensorboard(self) -> None:
        reason = "TensorBoard is not installed"
        pytest.importorskip("tensorboard.plugins.hparams.summary_v2", reason=reason)

    def make(self, folder: Path) -> Sink:
        return TensorBoardSink(str(folder / "there"))

    def contents(self, folder: Path) -> Any:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.plugins.hparams import metadata

        curves, finals, parameters = {}, {}, {}
        for run in sorted((folder / "there").glob("*-tr*")):
            number = int(run.name.partition("-")[0])
            events = EventAccumulator(str(run))
            events.Reload()
            curves[number] = {each.step: round(each.value, 4) for each in events.Scalars("value")}
            assert len(curves[number]) == len(events.Scalars("value"))
            if "result" in events.Tags()["scalars"]:
                finals[number] = [round(each.value, 4) for each in events.Scalars("result")]
            content = events.summary_metadata[metadata.SESSION_START_INFO_TAG].plugin_data.content
            parameters[number] = (
                metadata.parse_session_start_info_plugin_data(content).hparams["x"].number_value
            )
            assert metadata.SESSION_END_INFO_TAG in events.summary_metadata
        assert curves == CURVES and finals == {0: [0.5], 1: [0.7]}
        assert parameters == {0: 0.0, 1: 0.25, 2: 0.5, 3: 0.75}
        return curves, finals


class TestMlflow(SinkConformance):
    kills = (3_000, 20_000, 40_000, 60_000, 80_000)

    @pytest.fixture(autouse=True)
    def mlflow(self, tmp_path: Path) -> None:
        """Have MLflow create an empty database, which it cannot do again if it is killed meanwhile."""
        mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
        self.empty = tmp_path / "empty.db"
        mlflow.MlflowClient(f"sqlite:///{self.empty}").search_experiments()

    def make(self, folder: Path) -> Sink:
        if not (folder / "mlflow.db").exists():
            shutil.copy(self.empty, folder / "mlflow.db")
        return MlflowSink(f"sqlite:///{folder / 'mlflow.db'}", "exp")

    def contents(self, folder: Path) -> Any:
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
        (experiment,) = (each for each in client.search_experiments() if each.name == "exp")
        curves: dict[int, dict[int, float]] = {}
        runs = {}
        for run in client.search_runs([experiment.experiment_id]):
            number = int(run.info.run_name.partition("-")[0])
            points = client.get_metric_history(run.info.run_id, "value")
            curves[number] = {point.step: point.value for point in points}
            assert len(points) == len(curves[number]) and number not in runs
            runs[number] = (run.info.status, run.data.params["x"], run.data.metrics.get("result"))
        assert curves == CURVES
        assert runs == {
            0: ("FINISHED", "0.0", 0.5),
            1: ("FINISHED", "0.9", 0.7),
            2: ("KILLED", "0.5", None),
            3: ("FAILED", "0.75", None),
        }
        return curves, runs


class TestWandb(SinkConformance):
    kills = ()  # a process that is killed leaves the service of W&B, which the test would have to end

    @pytest.fixture(autouse=True)
    def wandb(self) -> Iterator[None]:
        wandb = pytest.importorskip("wandb", reason="W&B is not installed")
        yield
        wandb.teardown()

    def make(self, folder: Path) -> Sink:
        return WandbSink(str(folder), "project")

    def contents(self, folder: Path) -> Any:
        found = {}
        for run in (folder / "wandb").glob("offline-run-*"):
            name = run.name.partition("-exp-")[2]
            written = read_run(run / f"run-exp-{name}.wandb")
            assert name not in found and written.name == name
            summary = written.summary
            found[name] = (summary["status"], summary["result"], written.config["x"], written.exit_code)
            curve = {line["_step"]: line["value"] for line in written.history}
            assert curve == CURVES[int(name[0])]
        assert found == {
            "0-tr0": ("SUCCEEDED", 0.5, 0.0, 0),
            "1-tr1": ("SUCCEEDED", 0.7, 0.9, 0),
            "2-tr2": ("EARLY_STOPPED", None, 0.5, 1),
            "3-tr3": ("FAILED", None, 0.75, 1),
        }
        return found
