"""Attempts of several worker processes, with real processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.trial_keeper.harness import REPORT, Host, ending, oldest_python, text, wait_for
from tests.trial_keeper.harness import host as make_host
from trial_keeper import crew
from trial_keeper.gang_line import FIRST_PORT, PORTS
from trial_keeper.gang_variables import Group, environment
from trial_keeper.machine import procs

NAMES = (
    *("RANK", "LOCAL_RANK", "ROLE_RANK", "GROUP_RANK"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "OMP_NUM_THREADS"),
)


def gang(here: Host, command: str, processes: str = "3", job: str = "e-a-1") -> Path:
    """Order an attempt of several processes; return its directory."""
    return here.attempt(job, command, gang={"processes": processes})


def message(here: Host) -> str:
    final = here.server.ended("e-a-1").final
    assert final is not None
    return str(final["message"] or "")


def test_each_worker_has_the_environment_of_torchrun(here: Host) -> None:
    directory = gang(
        here,
        f"env > env.$RANK; echo out $RANK; echo err $RANK >&2; {REPORT} [ $RANK = 0 ] && report aa; true",
    )
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", 0, None) and told.frames == [b"aa\n"]
    seen = [
        dict(line.partition("=")[::2] for line in text(here.directory / f"env.{rank}").splitlines())
        for rank in range(3)
    ]
    port = seen[0]["MASTER_PORT"]
    assert FIRST_PORT <= int(port) < FIRST_PORT + PORTS
    for rank, environ in enumerate(seen):
        error = f"{directory}/ranks/{rank}/error.json"
        values = (rank, rank, rank, 0, 3, 3, 3, 1, "127.0.0.1", port, error, 1)
        assert [environ[name] for name in NAMES] == list(map(str, values))
    assert text(directory / "stdout") == "out 0\n" and text(directory / "stderr") == "err 0\n"
    for rank in (1, 2):
        assert text(directory / "ranks" / str(rank) / "stdout") == f"out {rank}\n"
        assert text(directory / "ranks" / str(rank) / "stderr") == f"err {rank}\n"


def test_one_process_needs_no_crew(here: Host) -> None:
    directory = gang(here, "env", "1")
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)
    found = dict(line.partition("=")[::2] for line in text(directory / "stdout").splitlines())
    values = ("0", "1", f"{directory}/ranks/0/error.json", "127.0.0.1")
    assert values == tuple(
        found[name] for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_ERROR_FILE", "MASTER_ADDR")
    )
    assert FIRST_PORT <= int(found["MASTER_PORT"]) < FIRST_PORT + PORTS
    assert (directory / "ranks" / "0").is_dir()


def test_the_first_failure_ends_all_and_is_the_reason(here: Host) -> None:
    gang(
        here,
        "if [ $RANK != 2 ]; then echo $$ > pid.$RANK; sleep 600; fi; "
        "until [ -s pid.0 ] && [ -s pid.1 ]; do sleep 0.01; done; "
        'echo "ValueError: bad" >&2; exit 7',
    )
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", 7, None)
    assert message(here) == "rank 2 failed first: ValueError: bad; 2 others were stopped"
    left = [int(text(path)) for path in here.directory.glob("pid.*")]
    assert [procs.start_time(pid) for pid in left] == [None] * len(left)


def test_a_worker_that_ignores_the_stop_is_killed(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    gang(here, "if [ $RANK = 1 ]; then exit 3; fi; trap '' TERM; while :; do sleep 0.05; done", "2")
    assert ending(here.server.ended("e-a-1")) == ("exited", 3, None)
    assert message(here) == "rank 1 failed first: exit code 3; the other one was stopped"


def test_the_words_of_rank_0_stay_the_last_ones(here: Host) -> None:
    gang(here, 'if [ $RANK = 0 ]; then echo "KeyError: 1" >&2; exit 4; fi; sleep 600')
    assert ending(here.server.ended("e-a-1")) == ("exited", 4, None)
    assert message(here) == "KeyError: 1"


def test_an_error_file_of_torch_is_read(here: Host) -> None:
    error = json.dumps({"message": {"message": "OutOfMemoryError: no memory", "extraInfo": {}}})
    gang(here, f"if [ $RANK = 1 ]; then echo '{error}' > $TORCHELASTIC_ERROR_FILE; exit 1; fi; sleep 600")
    assert message(here) == "rank 1 failed first: OutOfMemoryError: no memory; 2 others were stopped"


def test_a_killed_worker_ends_the_attempt(here: Host) -> None:
    gang(here, "[ $RANK = 1 ] && kill -SEGV $$; sleep 600", "2")
    assert ending(here.server.ended("e-a-1")) == ("exited", 128 + signal.SIGSEGV, None)
    assert message(here) == "rank 1 failed first: killed by signal 11; the other one was stopped"


def test_earlier_lines_are_not_taken_for_the_cause(here: Host) -> None:
    gang(here, "[ $RANK = 1 ] && { echo 'nni: not reported' >&2; exit 7; }; sleep 600", "2")
    assert message(here) == "rank 1 failed first: exit code 7; the other one was stopped"


def test_a_signal_is_named_before_the_last_line(here: Host) -> None:
    gang(here, "[ $RANK = 1 ] && { echo 'W0: old' >&2; kill -KILL $$; }; sleep 600", "2")
    assert (
        message(here)
        == "rank 1 failed first: killed by signal 9 (its last line: W0: old); the other one was stopped"
    )


def test_a_stop_reaches_every_worker_once(here: Host) -> None:
    gang(here, "trap 'echo stop >> stopped.$RANK; exit 0' TERM; touch up.$RANK; while :; do sleep 0.02; done")
    wait_for(lambda: len(list(here.directory.glob("up.*"))) == 3, "the workers")
    here.server.command("stop", "e-a-1", {"grace": 5.0})
    assert ending(here.server.ended("e-a-1"))[0] == "stopped"
    assert [text(here.directory / f"stopped.{rank}") for rank in range(3)] == ["stop\n"] * 3


def test_nothing_survives_a_killed_shim_or_crew(here: Host) -> None:
    gang(here, "echo $$ > pid.$RANK; sleep 600")
    wait_for(lambda: len([p for p in here.directory.glob("pid.*") if text(p)]) == 3, "the workers")
    pids = [int(text(path)) for path in here.directory.glob("pid.*")]
    (parent,) = {procs.ancestors(pid)[0] for pid in pids}
    os.kill(parent, signal.SIGKILL)
    assert ending(here.server.ended("e-a-1")) == ("exited", None, signal.SIGKILL)
    assert [procs.start_time(pid) for pid in pids] == [None] * 3


@pytest.mark.parametrize(
    ("processes", "gpus", "count"),
    [("5", "", 5), ("gpu", "0,3", 2), ("auto", "0,3", 2), ("auto", "", None), ("cpu", "0", None)],
)
def test_how_many(monkeypatch: pytest.MonkeyPatch, processes: str, gpus: str, count: int | None) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    assert crew.count_of(processes) == (count or len(os.sched_getaffinity(0)))


def test_a_process_for_each_gpu_needs_gpus(here: Host) -> None:
    here.attempt("e-a-1", "true", gang={"processes": "gpu"}, environment={"CUDA_VISIBLE_DEVICES": ""})
    said = "gang: there is one process for each GPU of the trial, but it has none: set trialGpuNumber"
    assert ending(here.server.ended("e-a-1")) == ("exited", crew.USAGE, None) and message(here) == said


@pytest.mark.parametrize(
    "python", [sys.executable, oldest_python()], ids=["this Python", "the oldest Python"]
)
def test_quotes_in_a_command_stay(tmp_path: Path, python: str | None) -> None:
    if python is None:
        pytest.skip("no Python 3.8 here")
    with make_host(tmp_path, python=python) as here:
        directory = gang(here, """echo "it's" '"quoted"' $RANK""", "2")
        assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)
        assert text(directory / "stdout") == 'it\'s "quoted" 0\n'


def roles_of(member: int, *, local: int = 0, in_pods: bool = True) -> dict[str, str]:
    """Return the variables of a worker of a gang with a ps and two workers, of two processes each."""
    hosts = ["10.1.0.7", "10.1.0.8", "10.1.0.9"]
    group = Group(member, [2, 2, 2], hosts, 20000, roles="ps:1,worker:2", in_pods=in_pods)
    return environment(group, local, "/folder")


def test_members_of_roles_are_numbered_in_their_roles() -> None:
    names = ("RANK", "WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")
    found = [roles_of(member, local=local) for member, local in ((0, 1), (1, 0), (2, 1))]
    assert [[each[name] for name in names] for each in found] == [
        ["1", "6", "ps", "1", "2"],
        ["2", "6", "worker", "0", "4"],
        ["5", "6", "worker", "3", "4"],
    ]


def test_members_in_pods_get_the_variables_of_the_operators() -> None:
    found = roles_of(2)
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {"ps": ["10.1.0.7:2222"], "worker": ["10.1.0.8:2222", "10.1.0.9:2222"]},
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert (found["FC_TASKROLE_NAME"], found["FC_TASK_INDEX"]) == ("worker", "1")
    assert (found["FB_PS_IPS"], found["FB_PS_PORT"]) == ("10.1.0.7", "4000")
    assert found["FB_WORKER_ADDRESSES"] == "10.1.0.8:4001,10.1.0.9:4001"
    assert not [name for name in roles_of(2, in_pods=False) if name.startswith(("TF_", "FB_"))]


def test_roles_that_tensorflow_does_not_know_are_not_told_to_it() -> None:
    group = Group(0, [1, 1], ["10.1.0.7", "10.1.0.8"], 20000, roles="main:1,worker:1", in_pods=True)
    assert "TF_CONFIG" not in environment(group, 0, "/folder")
