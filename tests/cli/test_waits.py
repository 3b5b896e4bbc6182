"""Verbs that take long say what they do: each is held until its sentence was printed."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from nnimgr.cli import archives, doctor, selection
from nnimgr.cli.main import main
from nnimgr.cli.terminal import Terminal
from nnimgr.home import Home
from tests.cli.fake import FakeServer, Told, trial
from tests.cli.test_archives import entry
from tests.trial_keeper.harness import DEADLINE_S
from training_services.findings import Check, Finding, Level

__all__ = ["entry"]

ABC = "experiments/abc"
CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
tuner: {name: Random}
goal: maximize
trainingService: {platform: local}
"""
PARETO = {"objectives": [], "trials": [], "total": 0, "results": 0}


@pytest.mark.parametrize(
    ("words", "held", "sentence"),
    [
        ("experiment delete abc --yes", ("DELETE", ABC), "Deleting experiment abc."),
        ("experiment delete --all --yes", ("DELETE", ABC), "Deleting experiment abc (1 of 1)."),
        ("experiment export abc", ("GET", f"{ABC}/export"), "Reading the results of experiment abc."),
        (
            "experiment export abc --intermediate",
            ("GET", f"{ABC}/metrics"),
            "Reading the metrics of experiment abc: 0 trials so far.",
        ),
        (
            "experiment import abc -f results.json",
            ("POST", f"{ABC}/import"),
            "Importing the results (1) into experiment abc.",
        ),
        (
            "experiment pareto abc",
            ("GET", f"{ABC}/analysis/pareto"),
            "Computing the Pareto set of experiment abc.",
        ),
        (
            "update tuner abc -f tuner.yml",
            ("PATCH", ABC),
            "Waiting until the server has checked and replaced the tuner of abc.",
        ),
        ("tensorboard start abc", ("POST", f"{ABC}/tensorboards"), "Asking a Python."),
        (
            "log trial abc -T 0 --tail 1",
            ("GET", f"{ABC}/trials/ta/logs/stdout"),
            "Waiting for stdout of trial 0.",
        ),
        (
            "trial get abc -T 0 --file model",
            ("GET", f"{ABC}/trials/ta/files/model"),
            "Waiting for model of trial 0.",
        ),
        (
            "create -c exp.yml --id new --port PORT",
            ("POST", "experiments"),
            "Waiting until the server has checked and created experiment new.",
        ),
        (
            "resume stopped",
            ("POST", "experiments/stopped/resume"),
            "Waiting until the server has resumed experiment stopped.",
        ),
    ],
)
def test_what_a_verb_waits_for_is_told(
    server: FakeServer, tmp_path: Path, told: Told, words: str, held: tuple[str, str], sentence: str
) -> None:
    found = server.add("abc")
    found.pareto, found.trials, found.logs = PARETO, [trial("ta", 0)], {"stdout": b"hello\n", "model": b"1"}
    found.profile["config"]["tuner"] = {"name": "Random"}
    if words.startswith("resume"):
        server.add("stopped", status="STOPPED")
    Path("results.json").write_text('[{"parameter": {"x": 1}, "value": 1}]')
    Path("tuner.yml").write_text("name: TPE\n")
    Path("exp.yml").write_text(CONFIG)
    server.hold[held] = told.event(sentence)
    assert main(words.replace("PORT", str(server.port)).split()) == 0
    assert sentence in told.sentences


def test_a_pods_file_is_copied_first(server: FakeServer, told: Told) -> None:
    found = server.add("abc", platform="kubernetes")
    found.trials, found.logs = [trial("ta", 3)], {"stdout": b"hello\n"}
    sentence = "Waiting for stdout of trial 3, which the server copies from the trial's pod."
    server.hold["GET", f"{ABC}/trials/ta/logs/stdout"] = told.event(sentence)
    assert main(["log", "trial", "abc", "-T", "ta", "--tail", "1"]) == 0


def test_saving_and_loading_count_files(
    server: FakeServer, entry: Any, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, settle, extract = archives._add_database, archives._settle, archives._extract

    def held(sentence: str, work: Any) -> Any:
        def wait(*arguments: Any, **options: Any) -> Any:
            done = work(*arguments, **options)
            assert told.event(sentence).wait(DEADLINE_S), told.sentences
            return done

        return wait

    monkeypatch.setattr(archives, "_add_database", held("Saving experiment abc: 2 files so far.", add))
    assert main(["experiment", "save", "abc", "--path", str(tmp_path / "abc.zip")]) == 0
    assert main(["experiment", "delete", "abc", "--yes"]) == 0
    monkeypatch.setattr(archives, "_extract", held("Loading experiment abc: 2 of 2 files.", extract))
    stopping = "Setting the loaded experiment abc to STOPPED."
    monkeypatch.setattr(archives, "_settle", held(stopping, settle))
    assert main(["experiment", "load", "--path", str(tmp_path / "abc.zip")]) == 0


def test_people_are_told_what_the_doctor_does(
    home: Home, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    async def examine(
        config: object, service: object, *, tell: Callable[[str, str], object]
    ) -> AsyncIterator[Finding]:
        async def is_told(sentence: str) -> bool:
            return await asyncio.to_thread(told.event(sentence).wait, DEADLINE_S)

        assert await is_told("Checking the machines by running a short test trial on each.")
        tell("one", "its pod waits")
        assert await is_told("The test trial on one waits: its pod waits.")
        tell("two", "waits for a node")
        yield Finding(machine="one", check=Check.CONFIG, level=Level.OK, sentence="good")
        assert await is_told("The test trial on two waits for a node.")

    monkeypatch.setattr("nnimgr.doctor.examine", examine)
    Path("exp.yml").write_text(CONFIG)
    terminal = Terminal(as_json=False, err=Screen())
    assert doctor.doctor(argparse.Namespace(nni=False, config="exp.yml"), terminal) == 0


def test_a_doctor_that_is_terminated_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = []

    async def examine(config: object, service: object, **_: object) -> AsyncIterator[Finding]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(DEADLINE_S)
            yield Finding(machine="one", check=Check.CONFIG, level=Level.OK, sentence="good")
        finally:
            removed.append("the job of the test trial")

    monkeypatch.setattr("nnimgr.doctor.examine", examine)
    Path("exp.yml").write_text(CONFIG)
    with pytest.raises(KeyboardInterrupt):
        doctor.doctor(argparse.Namespace(nni=False, config="exp.yml"), Terminal(as_json=False))
    assert removed


def test_a_conversion_is_told(told: Told) -> None:
    event = told.event("Converting experiment abc, which NNI has run.")
    assert selection._converting("abc", lambda: event.wait(DEADLINE_S))
