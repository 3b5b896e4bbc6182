"""Checkpoints of trials: what is saved, reported and loaded, in processes like those of trials."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nni.test_trial import PYTHONS, ROOT, Trial, text
from tests.trial_keeper.harness import frame
from trial_keeper.machine.interpreter import lay_down


@pytest.fixture(params=PYTHONS)
def trial(tmp_path: Path, request: pytest.FixtureRequest) -> Trial:
    (tmp_path / "attempt").mkdir()
    return Trial(tmp_path / "attempt", request.param)


def folder(trial: Trial) -> Path:
    """Return the folder of the attempt's checkpoints."""
    return trial.directory / "checkpoints"


def run(trial: Trial, code: str, **changes: str) -> str:
    return trial.run(code, **{"NNI_CHECKPOINT_DIR": str(folder(trial)), **changes})


def saved(number: int, step: int | None = None, *, size: int, files: int = 1, asked: bool = False) -> bytes:
    """Return the frame that reports a checkpoint."""
    fields = {"type": "CHECKPOINT", "trial_job_id": "TT", "sequence": number, "step": step}
    return frame(json.dumps({**fields, "size": size, "files": files, "asked": asked}).encode() + b"\n")


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def load(trial: Trial, number: int) -> str:
    """Return what a later attempt gets from a checkpoint, as it prints it."""
    code = "print(repr(nni.load_checkpoint()))"
    return run(trial, code, NNI_RESUME_DIR=f"{folder(trial)}/{number}").strip()


# ---- what is saved ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "name", "loaded"),
    [
        ("{'epoch': 3, 'w': [1.5]}", "value.pickle", "{'epoch': 3, 'w': [1.5]}"),
        ("b'weights'", "value.bytes", "b'weights'"),
        ("bytearray(b'weights')", "value.bytes", "b'weights'"),
        ("memoryview(b'weights')", "value.bytes", "b'weights'"),
    ],
)
def test_a_value_comes_back(trial: Trial, source: str, name: str, loaded: str) -> None:
    assert run(trial, f"print(nni.save_checkpoint({source}, step=3))") == "True\n"
    assert names(folder(trial)) == ["1"] and names(folder(trial) / "1") == [name]
    assert trial.frames() == saved(1, 3, size=(folder(trial) / "1" / name).stat().st_size)
    assert load(trial, 1) == loaded


@pytest.mark.parametrize("path", ["'{}'", "__import__('pathlib').Path('{}')"])
def test_a_file_comes_back_as_the_path_of_a_copy(trial: Trial, tmp_path: Path, path: str) -> None:
    source = tmp_path / "model.pt"
    source.write_bytes(b"weights")
    run(trial, f"nni.save_checkpoint({path.format(source)})")
    source.write_bytes(b"other")
    assert trial.frames() == saved(1, size=7)
    copy = folder(trial) / "1" / "file" / "model.pt"
    assert load(trial, 1) == repr(str(copy)) and copy.read_bytes() == b"weights"


def test_a_folder_comes_back_as_the_path_of_a_copy(trial: Trial, tmp_path: Path) -> None:
    source = tmp_path / "model"
    (source / "inner").mkdir(parents=True)
    (source / "weights").write_bytes(b"weights")
    (source / "inner" / "config").write_bytes(b"{}")
    (source / "latest").symlink_to("weights")
    (source / "inner").chmod(0o555)
    run(trial, f"nni.save_checkpoint('{source}', step=0)")
    assert trial.frames() == saved(1, 0, size=16, files=3)
    copy = folder(trial) / "1" / "folder"
    assert load(trial, 1) == repr(str(copy))
    assert (copy / "latest").read_bytes() == b"weights" and not (copy / "latest").is_symlink()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in copy.rglob("*")}
    assert modes == {"weights": 0o444, "latest": 0o444, "config": 0o444, "inner": 0o755}


def test_checkpoints_are_numbered_on(trial: Trial) -> None:
    run(trial, "for n in range(3):\n    nni.save_checkpoint(b'a' * n, step=n)")
    assert trial.frames() == saved(1, 0, size=0) + saved(2, 1, size=1) + saved(3, 2, size=2)
    for number in (1, 2):  # as the keeper deletes the oldest ones
        (folder(trial) / f"{number}" / "value.bytes").unlink()
        (folder(trial) / f"{number}").rmdir()
    (folder(trial) / ".gone-9").mkdir()
    (folder(trial) / "notes").mkdir()
    run(trial, "nni.save_checkpoint(b'')")
    assert names(folder(trial)) == [".gone-9", "3", "4", "notes"]


def test_an_attempt_without_a_checkpoint_starts_from_the_beginning(trial: Trial) -> None:
    run(trial, "nni.save_checkpoint(b'')")
    assert run(trial, "print(nni.load_checkpoint())") == "None\n"  # the attempt's own ones do not count


# ---- what is reported -------------------------------------------------------------------------------------


def test_a_metric_and_its_checkpoint_are_one_write(trial: Trial) -> None:
    run(
        trial,
        "import os\nwrites, write = [], os.write\n"
        "os.write = lambda fd, data: writes.append(data) or write(fd, data)\n"
        "nni.report_intermediate_result(0.1)\n"
        "nni.save_checkpoint(b'', step=1, metric=0.2)\n"
        "nni.save_checkpoint(b'', step=2)\n"
        "nni.report_intermediate_result(0.3)\n"
        "assert len(writes) == 4, writes",
    )
    assert trial.frames() == b"".join(
        [
            frame(text("0.1", sequence=0)),
            frame(text("0.2", sequence=1)) + saved(1, 1, size=0),
            saved(2, 2, size=0),
            frame(text("0.3", sequence=2)),
        ]
    )


def test_what_a_trial_logs_is_printed_after_a_metric_with_a_checkpoint(trial: Trial) -> None:
    log = "import logging\nnni.save_checkpoint(b'', metric=1)\nlogging.getLogger('mine').info('lr %g', 0.5)"
    assert "INFO (mine) lr 0.5" in run(trial, log)


FAILS = """
try:
    {}
except {} as error:
    print(error)
else:
    raise SystemExit("no error")
nni.save_checkpoint(b"new", metric=2)
"""


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            "nni.save_checkpoint([1])",
            "TypeError",
            "save_checkpoint takes a dict, bytes or a path, not list: save other objects to a file first",
        ),
        ("nni.save_checkpoint('/no/such/file')", "OSError", "[Errno 2]"),
        ("nni.save_checkpoint({'f': lambda: 1})", "Exception", "pickle"),
        ("nni.save_checkpoint(b'', step='three')", "ValueError", "invalid literal"),
        ("nni.save_checkpoint(b'', step=-5)", "ValueError", "step must be a whole number from 0 up, not -5"),
        ("nni.save_checkpoint(b'', metric=object())", "TypeError", "a metric of type object cannot be"),
    ],
)
def test_what_cannot_be_saved_leaves_nothing(trial: Trial, call: str, error: str, message: str) -> None:
    assert message in run(trial, FAILS.format(call, error))
    assert names(folder(trial)) == ["1"]
    assert trial.frames() == frame(text("2")) + saved(1, size=3)


def test_a_full_disk_leaves_the_checkpoints_before_it(trial: Trial) -> None:
    """No file may become longer than 1,000 bytes, as if the disk were full then."""
    run(trial, "nni.save_checkpoint(b'old', step=1)")
    out = run(
        trial,
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
        + FAILS.format("nni.save_checkpoint(b'a' * 100_000, step=2, metric=1)", "OSError"),
    )
    assert "File too large" in out
    assert names(folder(trial)) == ["1", "2"]
    assert (folder(trial) / "1" / "value.bytes").read_bytes() == b"old"
    assert trial.frames() == saved(1, 1, size=3) + frame(text("2")) + saved(2, size=3)


def test_a_metric_needs_the_parameters_first(trial: Trial) -> None:
    code = (
        "import nni\ntry:\n    nni.save_checkpoint(b'', metric=1)\nexcept AssertionError as error:\n    "
        "print(error)\nprint(nni.save_checkpoint(b'', step=1))"
    )
    environ = trial.environ(NNI_CHECKPOINT_DIR=str(folder(trial)))
    done = subprocess.run([trial.python, "-c", code], env=environ, capture_output=True, text=True, check=True)
    message = "nni.get_next_parameter() needs to be called before save_checkpoint\n"
    assert done.stdout == f"{message}True\n"
    assert names(folder(trial)) == ["1"] and trial.frames() == saved(1, 1, size=0)


def test_other_processes_of_a_distributed_trial_save_nothing(trial: Trial) -> None:
    code = "print(nni.save_checkpoint(b'', metric=1))"
    assert run(trial, f"import sys; sys.stderr = sys.stdout\n{code}", RANK="3").endswith("False\n")
    assert not folder(trial).exists() and trial.frames() == b""
    assert run(trial, code, RANK="0") == "True\n"
    assert trial.frames() == frame(text("1")) + saved(1, size=0)


# ---- requests to save -------------------------------------------------------------------------------------


CLOCK = """
import os
from nni import _checkpoint

class Clock:
    now = 100.0
    monotonic = classmethod(lambda cls: cls.now)

looks, lexists = [], os.path.lexists
os.path.lexists = lambda path: looks.append(path) or lexists(path)
_checkpoint.time = Clock
"""


def test_a_checkpoint_that_was_asked_for_says_so_and_takes_the_request_away(trial: Trial) -> None:
    out = run(
        trial,
        CLOCK + "save = os.environ['NNI_SYS_DIR'] + '/.nni/save'\n"
        "print(nni.should_checkpoint())\nopen(save, 'w').close()\nClock.now += 0.06\n"
        "print(nni.should_checkpoint(), nni.should_checkpoint())\n"
        "nni.save_checkpoint(b'', step=1)\nprint(os.path.exists(save), nni.should_checkpoint())\n"
        "nni.save_checkpoint(b'', step=2)",
    )
    assert out.splitlines() == ["False", "True True", "False False"]
    assert trial.frames() == saved(1, 1, size=0, asked=True) + saved(2, 2, size=0)


def test_a_request_that_comes_while_the_state_is_written_waits_for_the_next_checkpoint(trial: Trial) -> None:
    """The state may be older than the request, and an exit after it would be the end of the trial."""
    run(
        trial,
        "import os\nfrom nni import _checkpoint\nwrite = _checkpoint._write\n"
        "def late(source, new):\n    write(source, new)\n"
        "    open(os.environ['NNI_SYS_DIR'] + '/.nni/save', 'w').close()\n"
        "_checkpoint._write = late\nnni.save_checkpoint(b'', step=1)\n"
        "_checkpoint._write = write\nassert nni.should_checkpoint()\nnni.save_checkpoint(b'', step=2)",
    )
    assert trial.frames() == saved(1, 1, size=0) + saved(2, 2, size=0, asked=True)


def test_a_failed_save_does_not_take_the_request_away(trial: Trial) -> None:
    (trial.directory / ".nni" / "save").touch()
    run(trial, FAILS.format("nni.save_checkpoint('/no/such/file')", "OSError"))
    assert trial.frames() == frame(text("2")) + saved(1, size=3, asked=True)
    assert names(trial.directory / ".nni") == ["metrics"]


def test_a_question_whether_to_save_is_cheap(trial: Trial) -> None:
    out = run(
        trial,
        CLOCK + "for n in range(1000):\n    assert not nni.should_checkpoint()\nprint(len(looks))\n"
        "Clock.now += 0.009\nassert not nni.should_checkpoint()\nprint(len(looks))\n"
        "Clock.now += 0.002\nassert not nni.should_checkpoint()\nprint(len(looks))\n",
    )
    assert out.split() == ["1", "1", "2"]


def test_the_first_question_shows_that_the_trial_can_be_asked(trial: Trial) -> None:
    run(trial, "nni.save_checkpoint(b'')")
    assert names(trial.directory / ".nni") == ["metrics"]
    run(trial, "nni.should_checkpoint()\nnni.should_checkpoint()")
    assert names(trial.directory / ".nni") == ["asks", "metrics"]


@pytest.mark.parametrize(("asks", "shown"), [(True, ["asks"]), (False, [])])
def test_an_attempt_that_continues_can_be_asked_if_the_one_before_looked_for_requests(
    trial: Trial, asks: bool, shown: list[str]
) -> None:
    (trial.directory / "next").mkdir()
    following = Trial(trial.directory / "next", trial.python)
    run(trial, f"nni.save_checkpoint({{'epoch': 1}})\n{asks} and nni.should_checkpoint()")
    checkpoint = f"{folder(trial)}/1"
    assert run(following, "print(nni.load_checkpoint())", NNI_RESUME_DIR=checkpoint) == "{'epoch': 1}\n"
    assert names(following.directory / ".nni") == [*shown, "metrics"]


# ---- outside an experiment --------------------------------------------------------------------------------


def alone(python: str, code: str, cwd: Path, **environ: str) -> str:
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environ}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", f"import nni\n{code}"],
        env=base, capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("python", PYTHONS)
def test_outside_an_experiment_nothing_is_saved(tmp_path: Path, python: str) -> None:
    code = "print(nni.save_checkpoint({'a': 1}, metric=0.5), nni.load_checkpoint(), nni.should_checkpoint())"
    lines = alone(python, code, tmp_path).splitlines()
    assert lines[0].endswith("Intermediate result: 0.5  (Index 0)") and lines[1:] == ["False None False"]
    assert names(tmp_path) == []


@pytest.mark.parametrize("python", PYTHONS)
def test_outside_an_experiment_a_folder_can_be_named(tmp_path: Path, python: str) -> None:
    code = (
        "state = nni.load_checkpoint() or {'epoch': 0}\nprint(state)\n"
        "for _ in range(6):\n    state['epoch'] += 1\n    assert nni.save_checkpoint(state, metric=1)"
    )
    there = str(tmp_path / "checkpoints")
    first, second = (alone(python, code, tmp_path, NNI_CHECKPOINT_DIR=there).splitlines() for _ in range(2))
    assert (first[0], second[0]) == ("{'epoch': 0}", "{'epoch': 6}")
    assert second[-1].endswith("Intermediate result: 1  (Index 5)")
    assert len(names(tmp_path / "checkpoints")) == 12  # the newest is 12, not 9


# ---- the command ------------------------------------------------------------------------------------------


def command(trial: Trial, *words: str, **changes: str) -> tuple[int, str, str]:
    environ = trial.environ(NNI_CHECKPOINT_DIR=str(folder(trial)), **changes)
    done: Any = subprocess.run(
        [trial.python, "-m", "nni.checkpoint", *words], env=environ, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_saves_and_loads(trial: Trial, tmp_path: Path) -> None:
    (tmp_path / "state.txt").write_text("7\n")
    assert command(trial, "load") == (1, "", "")
    assert command(trial, "save", str(tmp_path / "state.txt"), "--step", "7") == (0, "", "")
    assert trial.frames() == saved(1, 7, size=2)
    there = f"{folder(trial)}/1"
    assert command(trial, "load", NNI_RESUME_DIR=there) == (0, f"{there}/file/state.txt\n", "")
    code, out, err = command(trial, "save", "/no/such/file")
    assert (code, out) == (1, "") and err.startswith("the checkpoint was not saved: [Errno 2]")


def test_the_command_answers_whether_to_save(trial: Trial) -> None:
    assert command(trial, "asked") == (1, "", "")
    assert (trial.directory / ".nni" / "asks").exists()
    (trial.directory / ".nni" / "save").touch()
    assert command(trial, "asked") == (0, "", "")


def test_the_command_needs_an_action(trial: Trial) -> None:
    code, _, err = command(trial)
    assert code == 2 and "usage: python3 -m nni.checkpoint" in err


@pytest.mark.parametrize("python", PYTHONS)
def test_beside_trials_alone_there_are_checkpoints(tmp_path: Path, python: str) -> None:
    """The trial's Python has no nnimgr: the keeper has written the trial API beside the trial."""
    lay_down(str(tmp_path))
    code = "import nni; print(nni.save_checkpoint({'a': 1}), nni.load_checkpoint(), nni.should_checkpoint())"
    there = str(tmp_path / "checkpoints")
    for words in (["-c", code], ["-m", "nni.checkpoint", "load"]):
        done = subprocess.run(
            [python, "-S", *words], env={"PYTHONPATH": str(tmp_path), "NNI_CHECKPOINT_DIR": there},
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == "True {'a': 1} False\n" if words[0] == "-c" else "{'a': 1}\n"


def test_the_import_of_nni_loads_no_checkpoints() -> None:
    code = "import sys, nni; print('nni._checkpoint' in sys.modules, nni.save_checkpoint.__module__)"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout == "False nni._checkpoint\n"
