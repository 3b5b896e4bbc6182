"""``sinks`` in a file: what is accepted, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import read_canonical
from nnimgr.sinks.appended import AppendedFiles
from tests.config.loading import GOAL, MINIMAL, Faults, Load
from tests.sinks.experiments import experiment


def test_sinks_survive_the_canonical_form(load: Load, tmp_path: Path) -> None:
    text = f"""{MINIMAL}{GOAL}
sinks:
  - name: csv
    classArgs: {{directory: out}}
  - className: mine.sinks:Kafka
    codeDirectory: {tmp_path}
    classArgs: {{topic: t, count: 3}}
"""
    config = load(text).config
    again = read_canonical(config.canonical())
    assert again.sinks == config.sinks and config.sinks is not None
    assert [each.title for each in config.sinks] == ["csv", "Kafka"]
    assert config.sinks[0].target == "nnimgr.sinks.csv_files:CsvSink"


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("{name: cvs}", "there is no sink 'cvs'; did you mean 'csv'?"),
        ("{name: csv, className: 'a:B'}", "give either 'name'"),
        ("{}", "give either 'name'"),
        ("{className: a.B}", "className 'a.B' is not of the form 'module:Class'"),
        ("{name: csv, classArgs: {folder: x}}", "the sink csv has no argument 'folder'"),
        ("{name: csv, classArgs: {directory: 3}}", "must be text, not 3"),
        ("{name: csv, codeDirectory: .}", "'codeDirectory' goes with 'className'"),
        ("{className: 'a:B', codeDirectory: nowhere}", "nowhere does not exist"),
        ("{name: csv, classArgs: {directory: '${env:NOT_SET}'}}", "NOT_SET"),
    ],
)
def test_what_is_refused(faults: Faults, sink: str, told: str) -> None:
    (line,) = faults(f"{MINIMAL}{GOAL}sinks:\n  - {sink}\n")
    assert told in line and "sinks[0]" in line and ".yml:11" in line


def test_a_directory_with_the_events_of_another_experiment_is_refused(faults: Faults, tmp_path: Path) -> None:
    files = AppendedFiles(tmp_path / "out", experiment("abc"), sink="csv")
    files.open()
    files.commit(1, {})
    (line,) = faults(f"{MINIMAL}{GOAL}sinks:\n  - {{name: csv, classArgs: {{directory: {files.folder}}}}}\n")
    assert "has the events of experiment abc: name another one" in line and ".yml:11" in line


def test_two_sinks_with_one_directory_are_refused(faults: Faults) -> None:
    places = (("csv", "out"), ("jsonl", "./out"))
    sinks = "".join(f"  - {{name: {name}, classArgs: {{directory: {out}}}}}\n" for name, out in places)
    (line,) = faults(f"{MINIMAL}{GOAL}sinks:\n{sinks}")
    assert "the directory ./out is that of sinks[0]: each sink needs its own" in line
    assert ".yml:12" in line and "sinks[1].classArgs.directory" in line
