"""Trials of a class that run one after another in the same process, with real processes."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.trial_keeper.harness import Host, Told, claim_of, ending, oldest_python, text, wait_for
from tests.trial_keeper.harness import host as make_host
from trial_keeper import zipapp
from trial_keeper.attempt import claim
from trial_keeper.machine import procs

# A class whose trials report their process, and the trials that the same object has run.
NET = """
    import os, sys, time
    import nni

    def wait(name):
        while not os.path.exists(name):
            time.sleep(0.005)

    class Net:
        steps = 2

        def setup(self, parameters):
            self.ran = []
            self.begin(parameters)

        def reset(self, parameters):
            BEFORE
            self.begin(parameters)

        def begin(self, parameters):
            self.ran.append(nni.get_trial_id())
            self.parameters = parameters
            print("begin", nni.get_trial_id(), os.environ.get("OTHER"), flush=True)

        def step(self):
            INSIDE
            return {"pid": os.getpid(), "ran": list(self.ran), "x": self.parameters["x"]}
"""


def code(*, before: str = "pass", inside: str = "pass") -> str:
    """Return the code of the class. ``before``: statement in ``reset``; ``inside``: in each step."""
    return textwrap.dedent(NET).replace("BEFORE", before).replace("INSIDE", inside)


def write(here: Host, content: str) -> None:
    """Write the file of the trials, unless it has this content."""
    path = here.directory / "net.py"
    if text(path) != content:
        path.write_text(content)


def order(here: Host, job: str, content: str, **changes: Any) -> Path:
    """Order an attempt that runs the class ``Net``; return its directory."""
    write(here, content)
    x = float(job.split("-")[1])
    return here.attempt(
        job,
        f"{here.python} -m nni.run net.py:Net",
        environment={"NNI_PLATFORM": "local", "NNI_TRIAL_JOB_ID": job, **changes.pop("environment", {})},
        preload={"modules": ["colorsys"], "target": changes.pop("target", "net.py:Net"), "resident": True},
        parameter=json.dumps({"parameter_id": 0, "parameters": {"x": x}}),
        **changes,
    )


def results(told: Told) -> list[Any]:
    """Return the values of the metrics."""
    return [json.loads(json.loads(frame)["value"]) for frame in told.frames if b'"value"' in frame]


def ran(here: Host, job: str, content: str, **changes: Any) -> dict[str, Any]:
    """Run an attempt to its good end, and return its last result."""
    directory = order(here, job, content, **changes)
    told = here.server.ended(job)
    assert ending(told) == ("exited", 0, None), text(directory / "stderr")
    found = results(told)
    assert len(found) == 3
    last: dict[str, Any] = found[-1]
    return last


def idle(here: Host, job: str) -> tuple[int, int]:
    """Wait until the shim of this attempt is idle. Return the pids of the shim and its worker."""
    found = claim_of(here, job)
    assert found.pid is not None and found.started is not None
    wait_for(lambda: claim_of(here, job).exit, "the end of the attempt")
    return found.pid, found.started[0]


def test_trials_run_one_after_another_in_one_process(here: Host) -> None:
    first, second, third = (ran(here, f"e-{number}-1", code()) for number in range(3))
    assert first["pid"] == second["pid"] == third["pid"]
    assert third["ran"] == ["e-0-1", "e-1-1", "e-2-1"]
    assert [each["x"] for each in (first, second, third)] == [0.0, 1.0, 2.0]
    claims = [claim_of(here, f"e-{number}-1") for number in range(3)]
    assert len({(each.pid, each.start_time) for each in claims}) == 1
    assert {each.started[0] for each in claims if each.started is not None} == {first["pid"]}


def test_each_trial_has_its_own_logs_and_metrics(here: Host) -> None:
    for number in range(3):
        ran(here, f"e-{number}-1", code(inside="print('step', self.parameters['x'])"))
    for number in range(3):
        folder = here.directory / "trials" / f"e-{number}-1"
        step = f"step {float(number)}\n"
        assert text(folder / "stdout") == f"begin e-{number}-1 None\n{step}{step}"
        assert text(folder / "stderr") == ""
        frames = here.server.told(f"e-{number}-1").frames
        assert {json.loads(frame)["trial_job_id"] for frame in frames} == {f"e-{number}-1"}
        assert [json.loads(frame)["sequence"] for frame in frames] == [0, 1, 0]


def test_no_trial_leaves_a_descriptor(here: Host) -> None:
    content = code(
        inside="print([len(os.listdir(f'/proc/{pid}/fd')) for pid in (os.getpid(), os.getppid())])"
    )
    lines = []
    for number in range(5):
        ran(here, f"e-{number}-1", content)
        line = text(here.directory / f"trials/e-{number}-1/stdout").splitlines()[-1]
        lines.append(json.loads(line))
    # The process above may have one open for a moment, but three trials do not leave three.
    assert all(last <= second + 1 for second, last in zip(lines[1], lines[4], strict=True))


def test_the_process_shows_the_marks_of_the_present_attempt(here: Host) -> None:
    write(here, code(inside="wait('gate')"))
    (here.directory / "gate").touch()
    first = ran(here, "e-0-1", code(inside="wait('gate')"))
    (here.directory / "gate").unlink()
    order(here, "e-1-1", code(inside="wait('gate')"))
    wait_for(lambda: here.server.told("e-1-1").started, "the start")
    folder = str(here.directory / "trials" / "e-1-1")
    wait_for(lambda: procs.marked("NNI_SYS_DIR", folder) == [first["pid"]], "the marks")
    (here.directory / "gate").touch()
    here.server.ended("e-1-1")


@pytest.mark.parametrize("refusal", ["return False", "raise NotImplementedError"])
def test_a_refused_trial_gets_a_process_of_its_own(here: Host, refusal: str) -> None:
    content = code(before=f"print('asked', flush=True); {refusal}")
    first, second = (ran(here, f"e-{number}-1", content) for number in range(2))
    assert first["pid"] != second["pid"]
    assert second["ran"] == ["e-1-1"]
    assert text(here.directory / "trials/e-1-1/stdout") == "asked\nbegin e-1-1 None\n"
    found = claim_of(here, "e-1-1")
    assert found.started is not None and found.started[0] == second["pid"]


def test_other_results_of_reset_accept_the_trial(here: Host) -> None:
    content = (
        code() + "\n    def reset(self, parameters):\n        self.begin(parameters)\n        return 0\n"
    )
    first, second = (ran(here, f"e-{number}-1", content) for number in range(2))
    assert first["pid"] == second["pid"]


def test_an_error_in_reset_fails_the_trial(here: Host) -> None:
    content = code(before="raise ValueError('bad')")
    ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    told = here.server.ended("e-1-1")
    assert ending(told) == ("exited", 1, None)
    assert told.final is not None and told.final["message"] == "ValueError: bad"
    assert "_resident.py" not in text(here.directory / "trials/e-1-1/stderr")


def test_cleanup_ends_each_trial(here: Host) -> None:
    content = code(before="if parameters['x'] == 2.0: raise ValueError('bad')")
    content += "\n    def cleanup(self):\n        print('clean')\n"
    pids = {ran(here, f"e-{number}-1", content)["pid"] for number in range(2)}
    order(here, "e-2-1", content)
    assert ending(here.server.ended("e-2-1")) == ("exited", 1, None)
    assert len(pids) == 1
    logs = [text(here.directory / f"trials/e-{number}-1/stdout").splitlines() for number in range(3)]
    assert logs == [["begin e-0-1 None", "clean"], ["begin e-1-1 None", "clean"], ["clean"]]


@pytest.mark.parametrize(
    ("line", "code_", "number"),
    [
        ("raise ValueError('bad')", 1, None),
        ("sys.exit(3)", 3, None),
        ("os._exit(9)", 9, None),
        ("os.kill(os.getpid(), 9)", None, 9),
    ],
)
def test_a_trial_that_fails_ends_the_process(
    here: Host, line: str, code_: int | None, number: int | None
) -> None:
    content = code(inside=f"if self.parameters['x'] == 1.0: {line}")
    first = ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    assert ending(here.server.ended("e-1-1")) == ("exited", code_, number)
    third = ran(here, "e-2-1", content)
    assert third["pid"] != first["pid"] and third["ran"] == ["e-2-1"]


def test_a_stop_ends_the_process(here: Host) -> None:
    content = code(inside="wait('gate') if self.parameters['x'] == 1.0 else 0")
    ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    wait_for(lambda: here.server.told("e-1-1").started, "the start")
    here.server.command("stop", "e-1-1", {"grace": 0.3})
    assert ending(here.server.ended("e-1-1")) == ("stopped", None, signal.SIGTERM)
    assert ran(here, "e-2-1", content)["ran"] == ["e-2-1"]


def test_a_stop_that_comes_too_late_does_not_reach_the_next_trial(here: Host) -> None:
    content = code(inside="wait('gate') if self.parameters['x'] == 1.0 else 0")
    ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    wait_for(lambda: here.server.told("e-1-1").started, "the start")
    shim = claim_of(here, "e-1-1").pid
    assert shim == claim_of(here, "e-0-1").pid and shim is not None
    Path(claim.prefix(str(here.keeper), "e-0-1") + claim.STOP).write_text("0.1")
    os.kill(shim, signal.SIGTERM)
    (here.directory / "gate").touch()
    assert ending(here.server.ended("e-1-1")) == ("exited", 0, None)


def test_a_stop_during_the_hand_over(here: Host) -> None:
    content = code(inside="wait('gate') if self.parameters['x'] == 1.0 else 0")
    ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    here.server.command("stop", "e-1-1", {"grace": 0.3})
    assert ending(here.server.ended("e-1-1"))[0] in ("stopped", "never_started")
    assert ran(here, "e-2-1", content)["x"] == 2.0


def test_a_stop_ends_a_reset(here: Host) -> None:
    content = code(before="wait('gate')")
    ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    wait_for(lambda: here.server.told("e-1-1").started, "the start")
    here.server.command("stop", "e-1-1", {"grace": 0.3})
    assert ending(here.server.ended("e-1-1")) == ("stopped", None, signal.SIGTERM)


def test_another_environment_gets_another_process(here: Host) -> None:
    first = ran(here, "e-0-1", code(), environment={"CUDA_VISIBLE_DEVICES": "0"})
    second = ran(here, "e-1-1", code(), environment={"CUDA_VISIBLE_DEVICES": "1"})
    third = ran(here, "e-2-1", code(), environment={"CUDA_VISIBLE_DEVICES": "0"})
    fourth = ran(here, "e-3-1", code(), environment={"CUDA_VISIBLE_DEVICES": "0", "OTHER": "a"})
    fifth = ran(here, "e-4-1", code(), environment={"CUDA_VISIBLE_DEVICES": "1"})
    assert [each["ran"] for each in (first, second, third)] == [["e-0-1"], ["e-1-1"], ["e-0-1", "e-2-1"]]
    assert fourth["ran"] == ["e-3-1"]
    assert fifth["ran"] == ["e-1-1", "e-4-1"]
    assert text(here.directory / "trials/e-3-1/stdout") == "begin e-3-1 a\n"
    assert procs.start_time(first["pid"]) is None, "an idle process keeps a GPU that another one uses"


def test_changed_code_gets_another_process(here: Host) -> None:
    ran(here, "e-0-1", code())
    assert ran(here, "e-1-1", code(inside="print('changed')"))["ran"] == ["e-1-1"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import threading; threading.Thread(target=time.sleep, args=(0.5,)).start()", "a thread"),
        ("import subprocess; subprocess.Popen(['sleep', '60'])", "another process"),
    ],
)
def test_what_a_trial_leaves_behind_ends_its_process(here: Host, line: str, kind: str) -> None:
    content = code(inside=line)
    pids = {ran(here, f"e-{number}-1", content)["pid"] for number in range(2)}
    assert len(pids) == 2
    said = f"{kind} of the trial runs on after its end, so the next trial gets a process of its own"
    assert [said in here.server.told(f"e-{number}-1").notes for number in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("old", "new", "lack"),
    [
        ("def reset", "def other", "has no method reset"),
        ("class Net", "def Net(p, trial):\n    other = Other()\n    other.setup(p)\n"
        "    for step in trial.steps(2):\n        trial.report(other.step())\nclass Other", "is no class"),
    ],
)  # fmt: skip
def test_what_cannot_be_reset_is_said_once(here: Host, old: str, new: str, lack: str) -> None:
    content = code().replace(old, new)
    pids = {ran(here, f"e-{number}-1", content)["pid"] for number in range(2)}
    assert len(pids) == 2
    said = f"Net {lack}, so each trial gets a process of its own"
    assert [said in here.server.told(f"e-{number}-1").notes for number in range(2)] == [True, False]


def test_an_idle_process_ends_by_itself(here: Host) -> None:
    content = "import atexit\natexit.register(lambda: (print('bye'), open('ended', 'w')))\n" + code()
    ran(here, "e-0-1", content)
    shim, worker = idle(here, "e-0-1")
    wait_for(lambda: procs.start_time(worker) is None and procs.start_time(shim) is None, "the end")
    assert (here.directory / "ended").exists()
    assert ran(here, "e-1-1", content)["ran"] == ["e-1-1"]


def test_an_idle_process_that_was_killed_costs_no_trial(here: Host) -> None:
    ran(here, "e-0-1", code())
    _, worker = idle(here, "e-0-1")
    os.kill(worker, signal.SIGKILL)
    assert ran(here, "e-1-1", code())["ran"] == ["e-1-1"]


def test_an_idle_shim_that_was_killed_takes_its_process_with_it(here: Host) -> None:
    ran(here, "e-0-1", code())
    shim, worker = idle(here, "e-0-1")
    os.kill(shim, signal.SIGKILL)
    assert ran(here, "e-1-1", code())["ran"] == ["e-1-1"]
    wait_for(lambda: procs.start_time(worker) is None, "the end of the process")


def test_a_request_to_a_shim_that_ends_is_tried_again(here: Host) -> None:
    ran(here, "e-0-1", code())
    shim, _ = idle(here, "e-0-1")
    prepared = here.directory / "trials" / "e-1-1"
    prepared.write_text(
        ""
    )  # a file in the place of the folder: the shim cannot prepare the attempt, and ends
    order(here, "e-1-1", code())
    wait_for(lambda: here.server.told("e-1-1").notes, "the note")
    assert procs.start_time(shim) is None
    prepared.unlink()
    assert ending(here.server.ended("e-1-1")) == ("exited", 0, None)
    assert results(here.server.told("e-1-1"))[-1]["ran"] == ["e-1-1"]


def test_a_shim_that_is_killed_in_its_second_attempt_fails_only_that(here: Host) -> None:
    content = code(inside="wait('gate') if self.parameters['x'] == 1.0 else 0")
    first = ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    wait_for(lambda: here.server.told("e-1-1").started, "the start")
    shim = claim_of(here, "e-1-1").pid
    assert shim is not None
    os.kill(shim, signal.SIGKILL)
    assert ending(here.server.ended("e-1-1")) == ("exited", None, None)
    wait_for(lambda: procs.start_time(first["pid"]) is None, "the end of the process")
    assert ran(here, "e-2-1", content)["ran"] == ["e-2-1"]


def test_without_the_keeper_a_trial_continues_and_its_process_ends_then(here: Host) -> None:
    content = code(inside="wait('gate') if self.parameters['x'] == 1.0 else 0")
    first = ran(here, "e-0-1", content)
    order(here, "e-1-1", content)
    wait_for(lambda: here.server.told("e-1-1").started, "the start")
    here.kill()
    here.start()
    second = ran(here, "e-2-1", content)
    assert second["ran"] == ["e-2-1"]
    (here.directory / "gate").touch()
    told = here.server.ended("e-1-1")
    assert ending(told) == ("exited", 0, None)
    assert results(told)[-1]["ran"] == ["e-0-1", "e-1-1"]
    wait_for(lambda: procs.start_time(first["pid"]) is None, "the end of the process")


def test_an_idle_process_ends_with_the_keeper(here: Host) -> None:
    ran(here, "e-0-1", code())
    shim, worker = idle(here, "e-0-1")
    here.kill()
    wait_for(lambda: procs.start_time(worker) is None and procs.start_time(shim) is None, "the end")


def test_a_removed_claim_file_ends_the_process(here: Host) -> None:
    path = claim.path(claim.prefix(str(here.keeper), "e-0-1"))
    content = code(inside=f"os.path.exists({path!r}) and os.unlink({path!r})")
    first = ran(here, "e-0-1", content)
    assert ran(here, "e-1-1", content)["pid"] != first["pid"]


CHECKPOINTS = """
    def load(self, state):
        self.ran.append(state["from"])

    def save(self):
        return {"from": "saved by " + nni.get_trial_id()}
"""


def test_a_trial_continues_from_its_checkpoint(here: Host) -> None:
    content = code().replace("steps = 2", "steps = 2; save_every = 1") + CHECKPOINTS
    first = ran(here, "e-0-1", content)
    folder = here.directory / "trials/e-0-1"
    assert (folder / "checkpoints/1").is_dir()
    origin = {"directory": "trials/e-0-1", "number": 1, "step": 1, "reports": 1}
    order(here, "e-1-1", content, origin=origin, environment={"NNI_RESUME_STEP": "1"})
    told = here.server.ended("e-1-1")
    last = results(told)[-1]
    assert last["pid"] == first["pid"]
    assert last["ran"] == ["e-0-1", "e-1-1", "saved by e-0-1"]
    assert len(results(told)) == 2  # one step, and the final result
    third = ran(here, "e-2-1", content)
    assert third["ran"] == ["e-0-1", "e-1-1", "saved by e-0-1", "e-2-1"]
    assert (here.directory / "trials/e-2-1/.nni/asks").exists()  # it looks for requests to save its state


def test_it_works_from_a_zip_file(tmp_path: Path) -> None:
    with make_host(tmp_path, package=zipapp.build(str(tmp_path))) as here:
        ran(here, "e-0-1", code())
        assert ran(here, "e-1-1", code())["ran"] == ["e-0-1", "e-1-1"]


@pytest.mark.skipif(oldest_python() is None, reason="no Python 3.8 here")
def test_it_works_with_the_oldest_python(tmp_path: Path) -> None:
    with make_host(tmp_path, python=oldest_python()) as here:
        ran(here, "e-0-1", code())
        assert ran(here, "e-1-1", code())["ran"] == ["e-0-1", "e-1-1"]
