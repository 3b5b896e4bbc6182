"""Bad input: what ``nnictl create`` says, to the letter, and that nothing is left of the attempt."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.home import Home
from nnimgr.index import Index
from tests.e2e.disks import disk
from tests.permissions import obedient
from tests.processes import of_home
from tests.server.harness import free_port

PLATFORMS = "(valid: ask, frameworkcontroller, kubeflow, kubernetes, local, ray, remote, slurm)"
CONFIG = """\
searchSpace:
  x: {_type: uniform, _value: [0, 1]}
trialCommand: python3 trial.py
trialCodeDirectory: code
trialConcurrency: 2
tuner: {name: Random}
trainingService: {platform: local}
goal: maximize
"""
SPACE = "{_type: uniform, _value: [0, 1]}"
FIELDS = (
    "experimentName, experimentType, searchSpaceFile, searchSpace, searchSpaceConstraints, "
    "initialParameters, duplicates, trialCommand, trialCodeDirectory, trialConcurrency, trialGpuNumber, "
    "trialCpuNumber, trialMemorySize, priority, preemptible, preload, resident, gang, "
    "maxExperimentDuration, maxTrialNumber, maxTrialDuration, "
    "nniManagerIp, useAnnotation, debug, logLevel, experimentWorkingDirectory, tunerGpuIndices, goal, "
    "tuner, "
    "assessor, scheduler, trainingService, spill, sharedStorage, suggestionsAhead, silentAfter, slotHeldFor, "
    "lease, "
    "multiPhase, maxRetries, checkpoints, onFailure, failureValue, failFast, stopWhen, confirmBest, notify, "
    "sinks, objectives, "
    "advisor"
)

FAULTS = {  # what is replaced, by what, and what is said
    "a tab as indentation of a block": (
        "tuner: {name: Random}",
        "tuner:\n\tname: Random",
        "exp.yml:7:1: YAML does not allow a tab here; use spaces",
    ),
    "a tab before a key": (
        "  x:",
        "\tx:",
        "exp.yml:2:1: YAML does not allow a tab here; use spaces",
    ),
    "misspelt key": (
        "trialConcurrency",
        "trialConcurency",
        "exp.yml:5:1: trialConcurency: unknown field; did you mean 'trialConcurrency'?",
    ),
    "unknown key": ("tuner:", "wibble: 1\ntuner:", f"exp.yml:6:1: wibble: unknown field (valid: {FIELDS})"),
    "unknown inner key": (
        "{name: Random}",
        "{name: Random, wibble: 1}",
        "exp.yml:6:23: tuner.wibble: unknown field; arguments of the algorithm go under classArgs "
        "(valid: name, className, codeDirectory, classArgs)",
    ),
    "negative concurrency": (
        "y: 2",
        "y: -2",
        "exp.yml:5:1: trialConcurrency: must be greater than 0, not -2",
    ),
    "text for a number": (
        "y: 2",
        "y: two",
        "exp.yml:5:1: trialConcurrency: must be a whole number, not 'two'",
    ),
    "empty choice": (
        SPACE,
        "{_type: choice, _value: []}",
        "exp.yml:2:22: searchSpace.x._value: must hold at least one option",
    ),
    "low above high": (
        SPACE,
        "{_type: uniform, _value: [3, 1]}",
        "exp.yml:2:23: searchSpace.x._value: the lower bound 3 must be less than the upper bound 1",
    ),
    "unknown type": (
        SPACE,
        "{_type: chioce, _value: [3, 1]}",
        "exp.yml:2:7: searchSpace.x._type: must be one of choice, randint, uniform, quniform, loguniform, "
        "qloguniform, normal, qnormal, lognormal, qlognormal, not 'chioce'; did you mean choice?",
    ),
    "no command": ("python3 trial.py", "''", "exp.yml:3:1: trialCommand: must not be empty"),
    "blank command": ("python3 trial.py", "' '", "exp.yml:3:1: trialCommand: must not be empty"),
    "NUL escaped": (
        "python3 trial.py",
        '"a\\0b"',
        "exp.yml:3:1: trialCommand: must not hold the character NUL",
    ),
    "NUL": ("python3 trial.py", "a\0b", "exp.yml:3:16: the character U+0000 is not allowed in YAML"),
    "unknown tuner": (
        "{name: Random}",
        "{name: Randon}",
        "exp.yml:6:9: tuner.name: there is no built-in tuner 'Randon'; valid names are Random, TPE, "
        "GridSearch, Batch, NSGA2, Optuna, PBT, TPE_legacy, Anneal, Evolution, GP, Metis, SMAC, CMAES, QMC, "
        "Hyperband, BOHB, ASHA; did you mean Random?",
    ),
    "unknown argument": (
        "{name: Random}",
        "{name: Random, classArgs: {sed: 3}}",
        "exp.yml:6:35: tuner.classArgs.sed: Random takes no argument 'sed'; "
        "valid arguments are optimize_mode, seed; did you mean seed?",
    ),
    "wrong argument": (
        "{name: Random}",
        "{name: Random, classArgs: {optimize_mode: max}}",
        "exp.yml:6:35: tuner.classArgs.optimize_mode: the argument optimize_mode of Random "
        "must be one of minimize, maximize, not 'max'",
    ),
    "arguments as a list": (
        "{name: Random}",
        "{name: Random, classArgs: [1]}",
        "exp.yml:6:23: tuner.classArgs: must be a mapping of keys to values, not a list",
    ),
    "no tuner": (
        "tuner: {name: Random}\n",
        "",
        "exp.yml: tuner: required, but not given; for example: tuner: {name: TPE}",
    ),
    "key twice": (
        "tuner:",
        "trialConcurrency: 3\ntuner:",
        "exp.yml:6:1: the key 'trialConcurrency' is given twice (first in line 5)",
    ),
    "unknown platform": (
        "platform: local",
        "platform: locl",
        f"exp.yml:7:19: trainingService.platform: unknown platform 'locl'; did you mean 'local'? {PLATFORMS}",
    ),
}

MEND = "  Correct exp.yml, then check it: nnictl create --dry-run --config exp.yml\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home in which nothing may be begun: no experiment, no entry, no process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    (tmp_path / "code").mkdir()
    yield Home.find()
    assert Index(Home.find()).entries() == {}
    assert list(tmp_path.rglob("environ.json")) + list(tmp_path.rglob("nnimgr.sqlite")) == []
    assert of_home(tmp_path / "home") == []


def create(config: str | bytes, *, port: int | None = None) -> int:
    """``nnictl create`` on this file; its exit code."""
    content = config if isinstance(config, bytes) else config.encode()
    Path("exp.yml").write_bytes(content)
    return main(["create", "--config", "exp.yml", "--port", str(port or free_port())])


@pytest.mark.parametrize(("old", "new", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_names_its_line_its_field_and_what_is_valid(
    home: Home, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    assert CONFIG.count(old) == 1
    assert create(CONFIG.replace(old, new)) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"ERROR: {said}\n{MEND}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "exp.yml: the file must hold a mapping of fields to values"),
        (b"# nothing\n", "exp.yml: the file must hold a mapping of fields to values"),
        (b"- a\n", "exp.yml:1:1: the file must hold a mapping of fields to values"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "exp.yml:1: this is not UTF-8 text"),
        (CONFIG.replace("trial.py", "trüal.py").encode("latin-1"), "exp.yml:3: this is not UTF-8 text"),
        (CONFIG.encode("utf-16"), "exp.yml:1: this is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_configuration(
    home: Home, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    assert create(content) == 1
    assert capsys.readouterr().err == f"ERROR: {said}\n{MEND}"


def test_no_file(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (("none.yml", "this file does not exist"), ("code", "this is a folder, not a file")):
        assert main(["create", "--config", name, "--port", str(free_port())]) == 1
        assert capsys.readouterr().err.startswith(f"ERROR: {name}: {said}\n")


def test_directories_that_are_none(home: Home, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wrong = CONFIG.replace("y: code", "y: nowhere") + "experimentWorkingDirectory: exp.yml/work\n"
    assert create(wrong) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"ERROR: exp.yml:4:1: trialCodeDirectory: the directory {tmp_path}/nowhere does not exist",
        f"ERROR: exp.yml:9:1: experimentWorkingDirectory: the directory {tmp_path}/exp.yml/work "
        f"cannot be made: {tmp_path}/exp.yml is not a directory",
        MEND.rstrip(),
    ]


def test_directories_whose_names_are_no_text(
    home: Home, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / os.fsdecode(b"b\xff")
    (odd / "code").mkdir(parents=True)
    monkeypatch.chdir(odd)
    monkeypatch.setenv("NNIMGR_HOME", str(odd / "home"))
    assert create(CONFIG) == 1
    printed = capsys.readouterr()
    home_fault, code_fault, mend = printed.err.splitlines()
    name = f"the name of the directory {tmp_path}/b\\xff"
    end = "is not valid UTF-8; rename the directory"
    assert home_fault == f"ERROR: exp.yml: experimentWorkingDirectory: {name}/home {end}"
    assert code_fault == f"ERROR: exp.yml:4:1: trialCodeDirectory: {name}/code {end}"
    assert (printed.out, mend) == ("", MEND.rstrip())


def test_a_busy_port_is_told_once_the_file_is_right(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        port = free_port()
        other.bind(("127.0.0.1", port))
        other.listen()
        Path("code", "trial.py").touch()
        assert create(CONFIG.replace("trialConcurrency", "trialConcurency"), port=port) == 1
        assert "trialConcurency: unknown field" in capsys.readouterr().err
        assert create(CONFIG, port=port) == 1
        printed = capsys.readouterr()
    told, mend = printed.err.splitlines()
    assert told == f"ERROR: Port {port} is not idle (Address already in use)."
    assert re.fullmatch(r"  Choose another port: nnictl create --config \S+ --port \d+", mend)


def test_a_home_on_a_read_only_file_system(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with disk(tmp_path / "fixed", size="1m") as fixed:
        fixed.remount("ro")
        monkeypatch.setenv("NNIMGR_HOME", str(fixed.path / "home"))
        assert create(CONFIG) == 1
        assert capsys.readouterr().err == (
            f"ERROR: Cannot write to {fixed.path}/home (Read-only file system); "
            "set NNIMGR_HOME to a directory in which you may write.\n  See: nnictl create --help\n"
        )
        monkeypatch.setenv("NNIMGR_HOME", str(home.path))
        assert create(CONFIG + f"experimentWorkingDirectory: {fixed.path}/work\n") == 1
        assert capsys.readouterr().err == (
            f"ERROR: exp.yml:9:1: experimentWorkingDirectory: the directory {fixed.path}/work "
            f"cannot be made: {fixed.path} cannot be written (Read-only file system)\n{MEND}"
        )


def test_places_without_permission(home: Home, tmp_path: Path) -> None:
    """As a user who may not do everything: root could read and write all of it."""
    os.chmod("code", 0o311)
    Path("exp.yml").write_text(CONFIG)
    assert create_unprivileged() == (
        f"ERROR: exp.yml:4:1: trialCodeDirectory: the directory {tmp_path}/code "
        f"cannot be read (Permission denied)\n{MEND}"
    )
    os.chmod("code", 0o755)
    Path("shut").mkdir(mode=0o000)
    Path("exp.yml").write_text(
        CONFIG.replace("y: code", "y: shut/code")
        + "searchSpaceFile: shut/space.json\nexperimentWorkingDirectory: shut/work\n"
    )
    assert create_unprivileged().splitlines() == [
        f"ERROR: exp.yml:4:1: trialCodeDirectory: the directory {tmp_path}/shut/code "
        "cannot be read (Permission denied)",
        f"ERROR: exp.yml:9:1: searchSpaceFile: the file {tmp_path}/shut/space.json "
        "cannot be read (Permission denied)",
        f"ERROR: exp.yml:10:1: experimentWorkingDirectory: the directory {tmp_path}/shut/work "
        f"cannot be made: {tmp_path}/shut cannot be written (Permission denied)",
        MEND.rstrip(),
    ]
    shutil.rmtree(home.path)
    home.path.mkdir(mode=0o555)
    Path("exp.yml").write_text(CONFIG)
    assert create_unprivileged() == (
        f"ERROR: Cannot write to {home.private_path} (Permission denied); "
        "set NNIMGR_HOME to a directory in which you may write.\n  See: nnictl create --help\n"
    )


def create_unprivileged() -> str:
    """What ``nnictl create`` says without root's right to pass over permissions."""
    command = [sys.executable, "-m", "nnimgr.cli.main", "create", "--config", "exp.yml"]
    done = subprocess.run(obedient(*command, "--port", str(free_port())), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr
